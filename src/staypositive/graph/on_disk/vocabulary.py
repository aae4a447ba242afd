"""Vocabularies that stay on disk, with the interface of `Vocabulary`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import UnknownLabelError
from staypositive.graph.on_disk.arrays import StoredArray
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
        return self._text(number, number + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            yield from self._text(first, min(first + AT_ONCE, len(self)))

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and self._find([label])[0] >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary) or (self.kind, len(self)) != (other.kind, len(other)):
            return False
        return all(own == its for own, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self.kind, len(self)))

    def id(self, label: str) -> int:
        """Return the id of a label."""
        return int(self.ids([label])[0])

    def ids(self, labels: Iterable[str]) -> NDArray[np.int64]:
        """Return the ids of many labels; an unknown one is an error."""
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

    def _find(self, labels: list[str]) -> NDArray[np.int64]:
        """Return the ids of labels, -1 for those that are not there."""
        from staypositive.graph.on_disk import kernels

        coded = [label.encode("utf-8", "surrogatepass") for label in labels]
        lengths = np.array([len(each) for each in coded], dtype=np.int64)
        data = np.frombuffer(b"".join(coded), dtype=np.uint8)
        hashes, checks = np.zeros(len(coded), dtype=np.int64), np.zeros(len(coded), dtype=np.int64)
        kernels.hash_labels(data, np.cumsum(lengths) - lengths, lengths, hashes, checks)
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self) - 1)
        same = [self._bytes(place) == each for place, each in zip(places.tolist(), coded, strict=True)]
        return np.where(same, places, -1)

    def _bytes(self, number: int) -> bytes:
        return bytes(self._blob[self._offsets[number] : self._offsets[number + 1]])

    def _text(self, first: int, last: int) -> list[str]:
        ends = np.asarray(self._offsets[first : last + 1])
        blob = bytes(self._blob[ends[0] : ends[-1]])
        edges = (ends - ends[0]).tolist()
        return [blob[a:b].decode("utf-8") for a, b in pairwise(edges)]


class NumberVocabulary(Vocabulary):
    """Ids that are their own labels: `"7"` is 7."""

    def __init__(self, kind: str, count: int) -> None:
        self.kind, self._size = kind, count

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """All labels in memory."""
        return tuple(self)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(range(self._size)[index])

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._size))

    def __contains__(self, label: object) -> bool:
        if not isinstance(label, str) or not (label.isascii() and label.isdigit()):
            return False
        return int(label) < self._size and str(int(label)) == label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberVocabulary) and (self.kind, self._size) == (other.kind, other._size)

    def __hash__(self) -> int:
        return hash((self.kind, self._size))

    def id(self, label: str) -> int:
        """Return the number that a label is."""
        if label not in self:
            raise UnknownLabelError(self.kind, label, self.nearest(label))
        return int(label)

    def nearest(self, label: str, most: int = 3) -> list[str]:
        """Return the first and the last number: what labels look like here."""
        return list(dict.fromkeys([str(0), str(self._size - 1)]))[:most]
