"""Dropout masks by hash, so that every engine drops the same."""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from staypositive.models.hashing import GOLDEN, MASK_32, mix_all

HAS_TRITON = importlib.util.find_spec("triton") is not None


def drop_threshold(dropout: float) -> int:
    """Return the 32-bit number below which a hash means: dropped."""
    return min(round(dropout * 2**32), MASK_32)


def keep_mask(key: int | Tensor, rows: int, columns: int, dropout: float, device: torch.device) -> Tensor:
    """Return which entries to keep, shape (rows, columns): hash(hash(key + row) + column · golden) ≥ threshold."""
    if HAS_TRITON and device.type == "cuda" and isinstance(key, Tensor):
        from staypositive.models.gpu import keep_mask_on_gpu

        return keep_mask_on_gpu(key, rows, columns, drop_threshold(dropout))
    row_keys = mix_all(torch.arange(rows, device=device) + key)
    columns_part = torch.arange(columns, device=device) * GOLDEN
    return mix_all(row_keys[:, None] + columns_part) >= drop_threshold(dropout)
