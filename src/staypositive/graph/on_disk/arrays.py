"""Arrays that grow on disk, as `.npy` files, and are read piece by piece."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 128
"""Bytes of the header of every file written here: numpy pads it to a multiple of 64."""


class GrowingArray:
    """Writes an array row by row, in a `with` block, at whose end the header, with the final length, is written."""

    def __init__(self, path: Path, dtype: Any, width: int = 0) -> None:
        self.dtype, self.width, self.length = np.dtype(dtype), width, 0
        self.stream = path.open("wb")
        self.stream.write(bytes(HEADER))

    def append(self, rows: NDArray[Any]) -> None:
        """Write some rows behind those there."""
        self.stream.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.length += len(rows)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *failure: object) -> None:
        shape = (self.length, self.width) if self.width else (self.length,)
        head = io.BytesIO()
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(head, about)
        assert len(head.getvalue()) == HEADER
        self.stream.seek(0)
        self.stream.write(head.getvalue())
        self.stream.close()


class StoredArray:
    """An array on disk: its length, and pieces of it, read so that they never stay in memory."""

    def __init__(self, path: Path) -> None:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        self.path, self.mapped, self.dtype = path, mapped, mapped.dtype
        self.shape: tuple[int, ...] = mapped.shape
        self.offset = int(mapped.offset)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from `first` up to `last`; reading through a map would leave its pages in memory."""
        count = max(0, min(last, len(self)) - first)
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        start = self.offset + first * width * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, count * width, offset=start).reshape(count, *self.shape[1:])
