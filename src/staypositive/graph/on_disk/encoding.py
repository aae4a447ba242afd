"""The third pass: hashes become ids, and triples are put aside by a hash of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.on_disk.arrays import StoredArray
from staypositive.graph.on_disk.building import grouped
from staypositive.graph.on_disk.job import CELLS, COLUMNS, Job, Sizes
from staypositive.graph.on_disk.spill import Spill


def encode(job: Job, sizes: Sizes) -> Spill:
    """Turn all cells into ids; return the triples by part, a part being a range of their keys.

    Where the sorted hashes do not fit in memory, they are taken slice by slice, each in a pass over all cells.
    """
    path = job.folder / CELLS
    stored = StoredArray(path)
    parts = 1 << (len(stored) * 192 // job.memory).bit_length()  # 12 bytes each; sorting takes ten times a part
    spill = Spill(job.folder, "triples", parts, job.memory // 8)
    slices, step = list(_slices(job, sizes)), max(1, job.piece // 24)
    with job.progress("encoding", len(stored) * len(slices)) as advance:
        for number, own in enumerate(slices, 1):
            lookups = [_Lookup(*each) for each in own]
            for first in range(0, len(stored), step):
                cells = stored.read(first, first + step)
                for lookup in lookups:
                    lookup.encode(cells)
                if number < len(slices):
                    _overwrite(path, stored.offset + first * 24, cells)
                else:
                    _put_aside(~cells, sizes, spill)
                advance(len(cells))
    path.unlink()
    return spill


def triple_keys(triples: NDArray[Any], sizes: Sizes) -> NDArray[np.uint64]:
    """Return a hash of each triple, another for each while |E|²|R| stays below 2^64."""
    from staypositive.graph.on_disk import kernels

    keys = np.empty(len(triples), dtype=np.uint64)
    kernels.triple_keys(triples, *sizes, keys)
    return keys


def _slices(job: Job, sizes: Sizes) -> Iterator[list[tuple[str, StoredArray, int, int]]]:
    """Yield what is looked up in one pass: of each kind, which of its sorted hashes."""
    paths = {kind: job.folder / f"{kind}-hashes.npy" for kind in COLUMNS}
    stored = {kind: StoredArray(path) for kind, path in paths.items() if path.exists()}
    room = job.memory // 4 // 24  # a hash and up to two buckets each
    for first in range(0, max(sizes) if stored else 1, room):
        yield [
            (kind, hashes, first, min(first + room, len(hashes)))
            for kind, hashes in stored.items()
            if first < len(hashes)
        ]


def _put_aside(triples: NDArray[np.int64], sizes: Sizes, spill: Spill) -> None:
    bits = len(spill).bit_length() - 1
    keys = triple_keys(triples, sizes)
    parts = (keys >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(keys), dtype=np.int64)
    order, ends = grouped(parts, len(spill))
    spill.put(triples[order].astype(sizes.dtype), ends)


def _overwrite(path: Path, place: int, cells: NDArray[np.int64]) -> None:
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(cells.data)


class _Lookup:
    """Ids of a slice of sorted hashes: buckets by the first bits, and a short walk in each."""

    def __init__(self, kind: str, stored: StoredArray, first: int, last: int) -> None:
        from staypositive.graph.on_disk import kernels

        self.columns, self.hashes, self.first = COLUMNS[kind], stored.read(first, last), first
        span = int(self.hashes[-1] - self.hashes[0])
        self.shift = max(0, span.bit_length() - (last - first).bit_length())
        self.starts = np.zeros((span >> self.shift) + 2, dtype=np.int64)
        kernels.bucket_starts(self.hashes, self.hashes[0], self.shift, self.starts)

    def encode(self, cells: NDArray[np.int64]) -> None:
        """Replace the hashes that the slice has by ids, inverted."""
        from staypositive.graph.on_disk import kernels

        for column in self.columns:
            kernels.encode_cells(cells, column, self.hashes, self.starts, self.shift, self.first)
