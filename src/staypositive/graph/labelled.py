"""Triples as they are read: labels become numbers as they are met, so that a long file takes little memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.files import sha256_bytes
from staypositive.graph.vocabulary import are_labels

Columns = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Heads, relations and tails of labelled triples, in parallel."""
Signs = NDArray[np.int8]
Weights = NDArray[np.float32]
ROLES = ("head", "relation", "tail")
EXPECTED = {"line": "; expected `head<TAB>relation<TAB>tail` on each line", "row": "; expected a triple in each row"}
SKIP_HINT = "; --skip-blank (skip_blank=True) leaves such rows out"


def as_text(name: str) -> str:
    """Return a name that can be written: bytes that are no text, as a file's may hold, become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8") if isinstance(name, str) else name


@dataclass(frozen=True)
class Source:
    """One file that a graph was read from: its name, the hash of its bytes and the triples it gave."""

    name: str
    sha256: str
    rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", as_text(self.name))


@dataclass(frozen=True)
class Place:
    """Where triples come from, for errors: a file and what its rows are called; a row or statement has no line."""

    path: str | os.PathLike[str] | None = None
    unit: str = "line"

    def error(self, message: str, number: int | None = None) -> DataError:
        if number is None or self.unit == "line":
            return DataError(message, self.path, None if self.path is None else number)
        return DataError(f"{self.unit} {number}: {message}", self.path)


@dataclass(frozen=True, eq=False)
class LabelledTriples:
    """The triples of one source: ids of its own labels, with ±1 and a weight per row where it has them.

    `lines` has the number of each row's line, row or statement; `notes` say what was left out or looks wrong, and
    `layout` which column was taken for what, where columns have names or were chosen.
    """

    ids: NDArray[np.int32]  # (n, 3): head, relation, tail
    entities: Sequence[str]
    relations: Sequence[str]
    source: Source
    lines: Sequence[int]
    place: Place = field(default_factory=Place)
    signs: Signs | None = None
    weights: Weights | None = None
    notes: tuple[str, ...] = ()
    layout: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes of a graph: how the source was read, and what was left out."""
        return (self.layout, *self.notes) if self.layout else self.notes

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> Columns:
        own = zip((self.entities, self.relations, self.entities), self.ids.T.tolist(), strict=True)
        heads, relations, tails = ([labels[i] for i in ids] for labels, ids in own)
        return heads, relations, tails

    def take(self, keep: NDArray[np.bool_]) -> LabelledTriples:
        signs = None if self.signs is None else self.signs[keep]
        weights = None if self.weights is None else self.weights[keep]
        lines = list(compress(self.lines, keep))
        return replace(self, ids=self.ids[keep], lines=lines, signs=signs, weights=weights)

    def triple(self, row: int) -> tuple[str, str, str]:
        head, relation, tail = self.ids[row].tolist()
        return self.entities[head], self.relations[relation], self.entities[tail]

    def error(self, message: str, row: int) -> DataError:
        return self.place.error(message, int(self.lines[row]))


class Encoder:
    """Gathers rows piece by piece, and refuses labels that are none; only numbers and distinct labels are kept."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.entities: dict[str, int] = {}
        self.relations: dict[str, int] = {}
        self._pieces: tuple[list[NDArray[Any]], ...] = ([], [], [])  # ids, signs, weights
        self._lines: list[Sequence[int]] = []
        self.rows = self.left_out = 0

    def add(
        self, columns: Columns, lines: Sequence[int], signs: Signs | None = None, weights: Weights | None = None
    ) -> None:
        self.keep(self.number(columns, lines), lines, signs, weights)

    def number(self, columns: Columns, lines: Sequence[int]) -> NDArray[np.int32]:
        """Return the ids of some rows' labels, shape (n, 3); new ones get the next."""
        ids, vocabularies = [], (self.entities, self.relations, self.entities)
        for role, labels, known in zip(ROLES, columns, vocabularies, strict=True):
            new = [label for label in dict.fromkeys(labels) if label not in known]
            if not are_labels(new):
                row, wrong = next((row, label) for row, label in enumerate(labels) if not are_labels([label]))
                hint = "" if self.place.unit == "statement" else SKIP_HINT
                is_blank = isinstance(wrong, str) and not wrong.strip()
                what = f"is empty{hint}" if is_blank else f"is not text: {wrong!r}"
                raise self.place.error(f"the {role} {what}", int(lines[row]))
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            ids.append(np.fromiter(map(known.__getitem__, labels), dtype=np.int32, count=len(labels)))
        return np.column_stack(ids)

    def keep(
        self, ids: NDArray[np.int32], lines: Sequence[int], signs: Signs | None = None, weights: Weights | None = None
    ) -> None:
        for kept, piece, dtype in zip(self._pieces, (ids, signs, weights), ("i4", "i1", "f4"), strict=True):
            if piece is not None:
                kept.append(np.asarray(piece, dtype=dtype))
        self.rows += len(ids)
        last = self._lines[-1] if self._lines else range(0)
        if isinstance(lines, range) and isinstance(last, range) and len(last) and last.stop == lines.start:
            self._lines[-1] = range(last.start, lines.stop)
        else:
            self._lines.append(lines)

    def finish(self, name: str, sha256: str = "", notes: Sequence[str] = ()) -> LabelledTriples:
        """Return all rows; what has no hash, not being a file, gets that of its labels and numbers."""
        if not self.rows:
            why = f" ({'; '.join(notes)})" if notes else EXPECTED.get(self.place.unit, "")
            raise self.place.error(f"no triples here{why}")
        if not sha256:
            text = "\n".join([*self.entities, "", *self.relations]).encode("utf-8")
            sha256 = sha256_bytes(text + b"".join(piece.tobytes() for pieces in self._pieces for piece in pieces))
        source = Source(name, sha256, self.rows)
        ids = np.concatenate(self._pieces[0])
        signs, weights = (np.concatenate(pieces) if pieces else None for pieces in self._pieces[1:])
        lines: Sequence[int] = self._lines[0] if len(self._lines) == 1 else [n for part in self._lines for n in part]
        labels = list(self.entities), list(self.relations)
        return LabelledTriples(ids, *labels, source, lines, self.place, signs, weights, tuple(notes))


def require_facts(part: LabelledTriples) -> None:
    if part.signs is not None and (part.signs < 0).any():
        first = int(np.argmax(part.signs < 0))
        triple = " ".join(part.triple(first))
        raise part.error(f"training uses facts alone, but `{triple}` is labelled -1; move it to valid or test", first)
