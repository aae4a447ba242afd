"""Randomness that any engine can draw alike: a hash of (seed, step, place), not a stream of random numbers.

A stream depends on who draws first; a hash does not. So a fused kernel, in any order and on any device, draws exactly
what the reference draws: the same dropout masks, the same negatives, the same rounding.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None
MASK_32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
FIRST, SECOND = 0x7FEB352D, 0x846CA68B
"""Multipliers of a 32-bit mixing function found by search (C. Wellons, "hash prospector", 2018)."""
_PLACES: ContextVar[Tensor | None] = ContextVar("places", default=None)


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


@contextmanager
def masks_at(places: Tensor) -> Iterator[None]:
    """Let masks have these rows of a larger batch's mask, shape (rows,): those of the share that a process takes."""
    token = _PLACES.set(places)
    try:
        yield
    finally:
        _PLACES.reset(token)


def drop_threshold(dropout: float) -> int:
    """Return the 32-bit number below which a hash means: dropped."""
    return min(round(dropout * 2**32), MASK_32)


def keep_mask(key: int | Tensor, rows: int, columns: int, dropout: float, device: torch.device) -> Tensor:
    """Return which entries to keep, shape (rows, columns): hash(hash(key + row) + column · golden) ≥ threshold."""
    places = _PLACES.get()
    if places is None and HAS_TRITON and device.type == "cuda" and isinstance(key, Tensor):
        from staypositive.models.gpu import keep_mask_on_gpu

        return keep_mask_on_gpu(key, rows, columns, drop_threshold(dropout))
    row_keys = mix_all((torch.arange(rows, device=device) if places is None else places[:rows]) + key)
    columns_part = torch.arange(columns, device=device) * GOLDEN
    return mix_all(row_keys[:, None] + columns_part) >= drop_threshold(dropout)
