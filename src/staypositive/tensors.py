"""Named tensors as a safetensors file: at once, or piece by piece where a table does not fit in memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from staypositive.errors import RunError
from staypositive.files import replacing

if TYPE_CHECKING:
    from torch import Tensor


class Table(NamedTuple):
    """A table by its shape and its rows, which come some at a time, in order."""

    shape: tuple[int, ...]
    pieces: Iterable[Tensor]


def tensors_to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    data: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return data


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to a file, whole or not at all; `OSError` where the system refuses."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        try:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from None


def tensors_from_bytes(data: bytes) -> dict[str, Tensor]:
    """Return the tensors that `tensors_to_bytes` wrote; `ValueError` where it did not."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    return tensors


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
            if not bool(piece.isfinite().all()):
                raise RunError(f"the weights of {name} are not finite numbers")
            if piece.shape[1:] != table.shape[1:]:
                raise RunError(f"{name} has rows of shape {table.shape[1:]}, and {tuple(piece.shape[1:])} came")
            rows += len(piece)
            yield piece.float().cpu().numpy().astype("<f4").tobytes()
        if rows != table.shape[0]:
            raise RunError(f"{name} has {table.shape[0]} rows, and {rows} came")
