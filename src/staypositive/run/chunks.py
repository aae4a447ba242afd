"""Tables written as a safetensors file piece by piece, so that none of them has to fit in memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from staypositive.errors import RunError


class Table(NamedTuple):
    """A table by its shape and its rows, which come some at a time, in order."""

    shape: tuple[int, ...]
    pieces: Iterable[Tensor]


def tensors_in_pieces(tables: Mapping[str, Table]) -> Iterator[bytes]:
    """Yield the file that holds named tables in 32 bits, as `tensors_from_bytes` reads it; numbers must be finite."""
    header: dict[str, Any] = {}
    end = 0
    for name, table in tables.items():
        begin, end = end, end + 4 * math.prod(table.shape)
        header[name] = {"dtype": "F32", "shape": list(table.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)  # so that numbers are aligned
    yield len(text).to_bytes(8, "little") + text
    for name, table in tables.items():
        rows = 0
        for piece in table.pieces:
            if not bool(torch.isfinite(piece).all()):
                raise RunError(f"the weights of {name} are not finite numbers")
            if piece.shape[1:] != table.shape[1:]:
                raise RunError(f"{name} has rows of shape {table.shape[1:]}, and {tuple(piece.shape[1:])} came")
            rows += len(piece)
            yield piece.float().cpu().numpy().astype("<f4").tobytes()
        if rows != table.shape[0]:
            raise RunError(f"{name} has {table.shape[0]} rows, and {rows} came")
