"""Dropout masks by hash, so that every engine drops the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from staypositive.models.hashing import GOLDEN, MASK_32, mix_all

HAS_TRITON = importlib.util.find_spec("triton") is not None
_PLACES: ContextVar[Tensor | None] = ContextVar("places", default=None)


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
