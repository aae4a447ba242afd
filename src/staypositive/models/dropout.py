"""Dropout masks that any engine can draw alike: a hash of (seed, step, row, column), not a stream of random numbers.

A stream depends on who draws first; a hash does not. So a fused kernel, in any order and on any device, drops exactly
what the reference drops.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASK_32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
FIRST, SECOND = 0x7FEB352D, 0x846CA68B
"""Multipliers of a 32-bit mixing function found by search (C. Wellons, "hash prospector", 2018)."""


def mix(value: int) -> int:
    """Return 32 well-mixed bits of a whole number.

    >>> mix(1) == mix(1), mix(1) == mix(2)
    (True, False)
    """
    value &= MASK_32
    value = ((value ^ (value >> 16)) * FIRST) & MASK_32
    value = ((value ^ (value >> 15)) * SECOND) & MASK_32
    return value ^ (value >> 16)


def step_key(seed: int, step: int) -> int:
    """Return the key of one step's masks."""
    return mix(mix(seed) + step)


def drop_threshold(dropout: float) -> int:
    """Return the 32-bit number below which a hash means: dropped."""
    return min(round(dropout * 2**32), MASK_32)


def keep_mask(key: int, rows: int, columns: int, dropout: float, device: torch.device) -> Tensor:
    """Return which entries to keep, shape (rows, columns): hash(hash(key + row) + column · golden) ≥ threshold."""
    row_keys = _mix(torch.arange(rows, device=device) + key)
    columns_part = torch.arange(columns, device=device) * GOLDEN
    return _mix(row_keys[:, None] + columns_part) >= drop_threshold(dropout)


def _mix(value: Tensor) -> Tensor:
    """The function `mix` on 64-bit integers, of which the lower 32 bits count."""
    value = value & MASK_32
    value = ((value ^ (value >> 16)) * FIRST) & MASK_32
    value = ((value ^ (value >> 15)) * SECOND) & MASK_32
    return value ^ (value >> 16)
