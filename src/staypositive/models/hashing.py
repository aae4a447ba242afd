"""Randomness that any engine can draw alike: a hash of (seed, step, place), not a stream of random numbers.

A stream depends on who draws first; a hash does not. So a fused kernel, in any order and on any device, draws exactly
what the reference draws: the same dropout masks, the same negatives, the same rounding.
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


def mix_all(values: Tensor) -> Tensor:
    """Return `mix` of each of some 64-bit integers, of which the lower 32 bits count."""
    values = values & MASK_32
    values = ((values ^ (values >> 16)) * FIRST) & MASK_32
    values = ((values ^ (values >> 15)) * SECOND) & MASK_32
    return values ^ (values >> 16)


def step_keys(seed: int, first: int, count: int, device: torch.device) -> Tensor:
    """Return what decides all that each of `count` steps from the `first` on draws, shape (count,)."""
    return mix_all(torch.arange(first, first + count, device=device) + mix(seed))


def draw_below(limit: int, hashes: Tensor) -> Tensor:
    """Return whole numbers from 0 to below `limit`, uniform as far as 32 bits go: ⌊hash · limit / 2³²⌋."""
    return (hashes * limit) >> 32
