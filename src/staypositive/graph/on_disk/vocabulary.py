"""Vocabularies that stay on disk: how their files are made, and read with the interface of `Vocabulary`.

Ids follow the hashes of the labels. That order depends on the labels only, neither on files nor on memory; a label
is found by a search in the sorted hashes; and any range of ids is a fair sample of the entities, so that tables cut
by range are balanced. A vocabulary need not fit in memory: it is put aside by hash, and sorted part by part.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, UnknownLabelError
from staypositive.graph.on_disk import kernels
from staypositive.graph.on_disk.shards import Labels
from staypositive.graph.on_disk.storage import GrowingArray, Spill, StoredArray
from staypositive.graph.vocabulary import Vocabulary

AT_ONCE = 1 << 16
PARTS = 256
HASH_BITS = 63
SMALLEST_FILTER = 1 << 12


class DiskVocabulary(Vocabulary):
    """Labels in one file, and their sorted hashes in another: the place of a label's hash is its id."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._hashes = StoredArray(folder / f"{kind}-hashes.npy").mapped
        self._offsets = StoredArray(folder / f"{kind}-offsets.npy").mapped
        self._blob = np.memmap(folder / f"{kind}-labels.utf8", dtype=np.uint8, mode="r")

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """All labels in memory: only for graphs that fit."""
        return tuple(self)

    def __len__(self) -> int:
        return len(self._hashes)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        number = range(len(self))[index]  # which minds the bounds, and counts from the end below 0
        return self._bytes(number).decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            ends = np.asarray(self._offsets[first : first + AT_ONCE + 1])
            blob = bytes(self._blob[ends[0] : ends[-1]])
            yield from (blob[a:b].decode("utf-8") for a, b in pairwise((ends - ends[0]).tolist()))

    def ids(self, labels: Iterable[str]) -> NDArray[np.int64]:
        asked = list(labels)
        found = self._find(asked)
        if (found < 0).any():
            label = asked[int(np.argmax(found < 0))]
            raise UnknownLabelError(self.kind, label, self.nearest(label))
        return found

    def nearest(self, label: str, most: int = 3) -> list[str]:
        """Return up to `most` labels that differ in case, or in spaces for underscores: what can be looked up."""
        spellings = [label.strip(), label.replace(" ", "_"), label.replace("_", " ")]
        tried = [form(each) for each in spellings for form in (str, str.lower, str.upper, str.capitalize, str.title)]
        return [each for each in dict.fromkeys(tried) if each in self][:most]

    def _number(self, label: object) -> int | None:
        found = int(self._find([label])[0]) if isinstance(label, str) else -1
        return found if found >= 0 else None

    def _find(self, labels: list[str]) -> NDArray[np.int64]:
        """Return the ids of labels, -1 for unknown ones."""
        hashes, coded = hash_texts(labels)
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self) - 1)
        return np.where([*map(operator.eq, map(self._bytes, places.tolist()), coded)], places, -1)

    def _bytes(self, number: int) -> bytes:
        return bytes(self._blob[self._offsets[number] : self._offsets[number + 1]])


def hash_texts(labels: Iterable[str]) -> tuple[NDArray[np.int64], list[bytes]]:
    """Return the hashes of labels, and their bytes."""
    coded = [label.encode("utf-8", "surrogatepass") for label in labels]
    lengths = np.array([len(each) for each in coded], dtype=np.int64)
    hashes, checks = np.zeros((2, len(coded)), dtype=np.int64)
    data = np.frombuffer(b"".join(coded), dtype=np.uint8)
    kernels.hash_labels(data, np.cumsum(lengths) - lengths, lengths, hashes, checks)
    return hashes, coded


class NumberVocabulary(Vocabulary):
    """Ids that are their own labels: `"7"` is 7."""

    def __init__(self, kind: str, count: int) -> None:
        self.kind, self._size = kind, count

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(range(self._size)[index])

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._size))

    def nearest(self, label: str, most: int = 3) -> list[str]:
        return list(dict.fromkeys(["0", str(self._size - 1)]))[:most]

    def _number(self, label: object) -> int | None:
        if not isinstance(label, str) or not (label.isascii() and label.isdigit()):
            return None
        return int(label) if int(label) < self._size and str(int(label)) == label else None


class VocabularyBuilder:
    """Takes labels as they come, then numbers them; `memory` bounds what it remembers of labels already seen."""

    def __init__(self, kind: str, folder: Path, memory: int) -> None:
        self.kind = kind
        slots = 1 << ((memory // 32).bit_length() - 1)  # half of the memory for the filter, 16 bytes per label
        self.filter = np.full((max(SMALLEST_FILTER, slots), 2), -1, dtype=np.int64)
        self.known = Spill(folder, f"{kind}-keys", PARTS, memory // 8)
        self.blobs = Spill(folder, f"{kind}-labels", PARTS, memory // 8)

    def add(self, labels: Labels, hashes: NDArray[np.int64], checks: NDArray[np.int64]) -> None:
        """Keep the labels that were not seen lately."""
        found = np.empty(len(hashes), dtype=np.int64)
        found = found[: kernels.unseen(hashes, checks, self.filter, found)]
        if len(found):
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
            first, second = (labels.text(row) for row in order[unlike[0] - 1 : unlike[0] + 1])
            raise DataError(f"{first!r} and {second!r} have the same hash of {HASH_BITS} bits; rename one of them")
        hashes.append(sorted_keys[~again, 0])
        return labels.take(order[~again])


def grouped(parts: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order that brings rows of one part together, and where each part ends in it."""
    narrow = parts.astype(np.uint16 if count <= 1 << 16 else np.int64)  # two bytes are sorted without comparisons
    return np.argsort(narrow, kind="stable"), np.cumsum(np.bincount(parts, minlength=count))
