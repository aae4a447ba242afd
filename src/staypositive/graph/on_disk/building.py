"""Building a vocabulary that need not fit in memory: hash, put aside by hash, sort part by part.

Ids follow the hashes of the labels. That order depends on the labels alone, neither on files nor on memory; a label
is found by a search in the sorted hashes; and any range of ids is a fair sample of the entities, so that tables cut
by range are balanced.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.graph.on_disk.arrays import GrowingArray
from staypositive.graph.on_disk.chunks import Labels
from staypositive.graph.on_disk.spill import Spill

PARTS = 256
HASH_BITS = 63
SMALLEST_FILTER = 1 << 12


class VocabularyBuilder:
    """Takes labels as they come, then numbers them; `memory` bounds what it remembers of labels already seen."""

    def __init__(self, kind: str, folder: Path, memory: int) -> None:
        self.kind = kind
        slots = max(SMALLEST_FILTER, 1 << ((memory // 32).bit_length() - 1))  # half for the filter, 16 bytes a label
        self.filter = np.full((slots, 2), -1, dtype=np.int64)
        self.known = Spill(folder, f"{kind}-keys", PARTS, memory // 8)
        self.blobs = Spill(folder, f"{kind}-labels", PARTS, memory // 8)

    def add(self, labels: Labels, hashes: NDArray[np.int64], checks: NDArray[np.int64]) -> None:
        """Keep the labels that were not seen lately."""
        from staypositive.graph.on_disk import kernels

        found = np.empty(len(hashes), dtype=np.int64)
        found = found[: kernels.unseen(hashes, checks, self.filter, found)]
        if not len(found):
            return
        order, ends = grouped(hashes[found] >> (HASH_BITS - PARTS.bit_length() + 1), PARTS)
        rows = found[order]
        own = labels.take(rows)
        self.known.put(np.column_stack([hashes[rows], checks[rows], own.lengths]), ends)
        edges = np.append(own.starts, len(own.data))
        self.blobs.put(own.data, edges[ends])

    def finish(self, folder: Path) -> int:
        """Write hashes, offsets and labels in the order of the ids; return how many there are."""
        self.filter = self.filter[:0]
        with (
            GrowingArray(folder / f"{self.kind}-hashes.npy", "<i8") as hashes,
            GrowingArray(folder / f"{self.kind}-offsets.npy", "<i8") as offsets,
            (folder / f"{self.kind}-labels.utf8").open("wb") as blob,
        ):
            offsets.append(np.zeros(1, dtype=np.int64))
            total = 0
            for part in range(PARTS):
                keys = self.known.take(part, np.int64).reshape(-1, 3)
                labels = self._sorted(keys, self.blobs.take(part, np.uint8), hashes)
                offsets.append(total + labels.starts + labels.lengths)
                blob.write(labels.data.data)
                total += len(labels.data)
        return hashes.length

    def _sorted(self, keys: NDArray[np.int64], blob: NDArray[np.uint8], hashes: GrowingArray) -> Labels:
        """Append the distinct hashes of a part, ascending; return their labels."""
        order = np.argsort(keys[:, 0])
        sorted_keys = keys[order]
        again = np.zeros(len(keys), dtype=bool)
        again[1:] = sorted_keys[1:, 0] == sorted_keys[:-1, 0]
        labels = Labels(blob, np.cumsum(keys[:, 2]) - keys[:, 2], keys[:, 2])
        unlike = np.flatnonzero(again & (sorted_keys[:, 1] != np.roll(sorted_keys[:, 1], 1)))
        if len(unlike):
            pair = labels.take(order[unlike[0] - 1 : unlike[0] + 1])
            first, second = (bytes(pair.data[s : s + n]).decode() for s, n in zip(pair.starts, pair.lengths))  # noqa: B905
            raise DataError(f"{first!r} and {second!r} have the same hash of {HASH_BITS} bits; rename one of them")
        hashes.append(sorted_keys[~again, 0])
        return labels.take(order[~again])


def grouped(parts: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order that brings rows of one part together, and where each part ends in it."""
    from staypositive.graph.on_disk import kernels

    ends, order = np.zeros(count, dtype=np.int64), np.empty(len(parts), dtype=np.int64)
    kernels.group_rows(parts, ends, order)
    return order, ends
