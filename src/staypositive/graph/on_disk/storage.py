"""What the passes of an ingestion share: a folder, a ceiling of memory, and arrays and parts of work on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], Any]]]
"""Called with what is done and how much there is of it; gives what is told of each piece."""

MOST_PIECE = 1 << 24
KINDS = ("entity", "relation", "entity")  # of the labels in each column of a triple
CELLS = "cells.npy"  # hashes or ids of all triples, 8 bytes each, between the passes
HEADER = 128  # bytes of the header of every array written here: numpy pads it to a multiple of 64


class Sizes(NamedTuple):
    entities: int
    relations: int

    @property
    def dtype(self) -> str:
        return "<i4" if max(self) < 2**31 else "<i8"


@dataclass(frozen=True)
class Job:
    """A folder to work in, a ceiling of memory in bytes, and a progress bar."""

    folder: Path
    memory: int
    progress: Progress

    @property
    def piece(self) -> int:
        return min(MOST_PIECE, self.memory // 64)


@contextmanager
def silent(what: str, total: int) -> Iterator[Callable[[int], Any]]:
    yield lambda done: None


class GrowingArray:
    """Writes an array row by row in a `with` block, at whose end the header, with the final length, is written."""

    def __init__(self, path: Path, dtype: Any, width: int = 0) -> None:
        self.dtype, self.width, self.length = np.dtype(dtype), width, 0
        self.stream = path.open("wb")
        self.stream.write(bytes(HEADER))

    def append(self, rows: NDArray[Any]) -> None:
        self.stream.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.length += len(rows)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *failure: object) -> None:
        shape = (self.length, self.width) if self.width else (self.length,)
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        with self.stream:
            self.stream.seek(0)
            np.lib.format.write_array_header_1_0(self.stream, about)
            assert self.stream.tell() == HEADER


class StoredArray:
    """An array on disk: its length, and pieces of it, read so that they never stay in memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.mapped = path, np.load(path, mmap_mode="r", allow_pickle=False)
        self.dtype, self.offset = self.mapped.dtype, int(self.mapped.offset)
        self.shape: tuple[int, ...] = self.mapped.shape

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from `first` up to `last`; reading through a map would leave its pages in memory."""
        count = max(0, min(last, len(self)) - first)
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        start = self.offset + first * width * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, count * width, offset=start).reshape(count, *self.shape[1:])


class Spill:
    """Rows put aside by part, in memory up to `most` bytes and else in files, and read back part by part."""

    def __init__(self, folder: Path, name: str, parts: int, most: int) -> None:
        self.folder, self.name, self.most = folder, name, most
        self.pieces: list[list[bytes]] = [[] for _ in range(parts)]
        self.held = 0

    def __len__(self) -> int:
        return len(self.pieces)

    def put(self, rows: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Put rows aside that lie part by part, each part up to its end."""
        for pieces, own in zip(self.pieces, np.split(rows, ends[:-1]), strict=True):
            if len(own):
                pieces.append(own.tobytes())
        self.held += rows.nbytes
        if self.held > self.most:
            for part, pieces in enumerate(self.pieces):
                if pieces:
                    with self._path(part).open("ab") as stream:
                        stream.writelines(pieces)
                    pieces.clear()
            self.held = 0

    def take(self, part: int, dtype: Any) -> NDArray[Any]:
        """Return all that was put aside for a part, and forget it."""
        path, pieces = self._path(part), self.pieces[part]
        if path.exists():
            pieces.insert(0, path.read_bytes())
            path.unlink()
        data = b"".join(pieces)
        pieces.clear()
        return np.frombuffer(data, dtype=dtype)

    def _path(self, part: int) -> Path:
        return self.folder / f"{self.name}.{part}"
