"""Vocabularies that stay on disk, with the interface of `Vocabulary`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import UnknownLabelError
from staypositive.graph.on_disk.storage import StoredArray
from staypositive.graph.vocabulary import Vocabulary

AT_ONCE = 1 << 16


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
    from staypositive.graph.on_disk import kernels

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
