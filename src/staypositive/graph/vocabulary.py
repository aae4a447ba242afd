"""Labels and their ids, and which labels are spelt like one that is not there."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError, UnknownLabelError

BINS, CUTOFF = 32, 0.6
COMPARED = 64  # labels compared letter by letter: the most promising ones


class Vocabulary(Sequence[str]):
    """Labels and their ids: `vocabulary[3]` is a label, `vocabulary.id("France")` its number."""

    def __init__(self, kind: str, labels: Iterable[str]) -> None:
        self.kind = kind
        self.labels = tuple(labels)
        if not are_labels(self.labels):
            wrong = next(label for label in self.labels if not are_labels([label]))
            raise InputError(f"the {kind} label {wrong!r} is blank or not text")
        self._ids = {label: i for i, label in enumerate(self.labels)}
        if len(self._ids) != len(self.labels):
            raise InputError(f"the {kind} labels are not distinct")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not needed
        return self.labels[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __contains__(self, label: object) -> bool:
        return self._number(label) is not None

    def __eq__(self, other: object) -> bool:
        is_alike = isinstance(other, Vocabulary) and (self.kind, len(self)) == (other.kind, len(other))
        return is_alike and all(map(operator.eq, self, other))  # type: ignore[call-overload]

    def __hash__(self) -> int:
        return hash((self.kind, len(self)))

    def _number(self, label: object) -> int | None:
        return self._ids.get(label)  # type: ignore[call-overload, no-any-return]

    def id(self, label: str) -> int:
        """Return the id of a label; an unknown one is an error that suggests the nearest labels."""
        number = self._number(label)
        if number is None:
            raise UnknownLabelError(self.kind, label, self.nearest(label))
        return number

    def ids(self, labels: Iterable[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self.id, labels), dtype=np.int64)

    def nearest(self, label: str, most: int = 3) -> list[str]:
        """Return up to `most` labels spelt like this one, whatever the case; a longer name may begin with it."""
        return self._spelling.nearest(label, most)

    @cached_property
    def _spelling(self) -> _Spelling:
        return _Spelling(self.labels)


class _Spelling:
    """Labels by how often each letter is in them: two that share few letters cannot be spelt alike."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = {label.casefold(): label for label in reversed(labels)}  # of two spelt alike, the first is kept
        self.folded = list(dict.fromkeys(map(str.casefold, labels)))
        coded = [label.encode("utf-8", "replace") for label in self.folded]
        self.lengths = np.fromiter(map(len, coded), dtype=np.int64, count=len(coded))
        letters = np.frombuffer(b"".join(coded), dtype=np.uint8) % BINS
        rows = np.repeat(np.arange(len(coded)), self.lengths)
        counts = np.bincount(rows * BINS + letters, minlength=len(coded) * BINS)
        self.counts = np.minimum(counts, 255).astype(np.uint8).reshape(-1, BINS)

    def nearest(self, label: str, most: int) -> list[str]:
        wanted = label.casefold()
        coded = np.frombuffer(wanted.encode("utf-8", "replace"), dtype=np.uint8)
        own = np.minimum(np.bincount(coded % BINS, minlength=BINS), 255).astype(np.uint8)
        shared = np.minimum(self.counts, own).sum(axis=1, dtype=np.int64)
        bound = 2 * shared / np.maximum(self.lengths + len(coded), 1)  # of difflib's ratio
        best = np.argsort(-bound, kind="stable")[:COMPARED]
        promising = [self.folded[place] for place in best[bound[best] >= CUTOFF].tolist()]
        close = difflib.get_close_matches(wanted, promising, n=most, cutoff=CUTOFF)
        begins = sorted((known for known in self.folded if wanted and known.startswith(wanted)), key=len)
        return [self.labels[known] for known in dict.fromkeys([*close[:1], *begins[:2], *close, *begins])][:most]


def are_labels(labels: Sequence[str]) -> bool:
    """Return whether all are text with something in it, which files, pages and answers can carry.

    Half of a surrogate pair is no text. All are looked at together, since there may be millions.
    """
    try:
        "".join(labels).encode("utf-8")
        return all(map(str.strip, labels))
    except (TypeError, UnicodeEncodeError):
        return False
