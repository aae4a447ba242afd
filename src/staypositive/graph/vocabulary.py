"""Labels and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError, UnknownLabelError
from staypositive.graph.spelling import Spelling


class Vocabulary(Sequence[str]):
    """Labels and their ids: `vocabulary[3]` is a label, `vocabulary.id("France")` its number."""

    def __init__(self, kind: str, labels: Iterable[str]) -> None:
        self.kind = kind
        self.labels = tuple(labels)
        _require_text(kind, self.labels)
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
        return label in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.kind, self.labels) == (other.kind, other.labels)

    def __hash__(self) -> int:
        return hash((self.kind, self.labels))

    def id(self, label: str) -> int:
        """Return the id of a label; an unknown one is an error that suggests the nearest labels."""
        try:
            return self._ids[label]
        except KeyError:
            raise UnknownLabelError(self.kind, label, self.nearest(label)) from None

    def ids(self, labels: Iterable[str]) -> NDArray[np.int64]:
        """Return the ids of many labels."""
        return np.fromiter((self.id(label) for label in labels), dtype=np.int64)

    def nearest(self, label: str, most: int = 3) -> list[str]:
        """Return up to `most` labels spelt like this one, whatever the case; a longer name may begin with it."""
        return self._spelling.nearest(label, most)

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.labels)


def _require_text(kind: str, labels: Sequence[str]) -> None:
    """Refuse labels that no file, page or answer could carry; all at once first, since there may be millions."""
    try:
        "".join(labels).encode("utf-8")
        is_good = all(map(str.strip, labels))
    except (TypeError, UnicodeEncodeError):
        is_good = False
    if not is_good:
        wrong = next(label for label in labels if not is_label(label))
        raise InputError(f"the {kind} label {wrong!r} is blank or not text")


def is_label(label: object) -> bool:
    """Return whether a label is text with something in it; half of a surrogate pair is not."""
    if not isinstance(label, str) or not label.strip():
        return False
    return not any("\ud800" <= character <= "\udfff" for character in label)
