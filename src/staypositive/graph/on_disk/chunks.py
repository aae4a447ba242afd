"""Pieces of shards: some rows as labels that lie in one buffer, or as ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.graph.labelled import ROLES, SKIP_HINT, Place
from staypositive.graph.readers.options import TableOptions


@dataclass(frozen=True, eq=False)
class Labels:
    """One column of a piece: where in `data` each label lies."""

    data: NDArray[np.uint8]
    starts: NDArray[Any]
    lengths: NDArray[Any]

    def take(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of some rows, one behind another."""
        from staypositive.graph.on_disk import kernels

        lengths = self.lengths[rows].astype(np.int64)
        blob = np.empty(int(lengths.sum()), dtype=np.uint8)
        kernels.gather_bytes(self.data, self.starts[rows], lengths, blob)
        return Labels(blob, np.cumsum(lengths) - lengths, lengths)

    def text(self, row: int) -> str:
        """Return one label."""
        start = int(self.starts[row])
        return bytes(self.data[start : start + int(self.lengths[row])]).decode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a shard: three columns of labels, or ids of shape (n, 3); `row` is the first's number, or line."""

    place: Place
    row: int
    labels: tuple[Labels, Labels, Labels] | None = None
    ids: NDArray[np.int64] | None = None
    numbers: NDArray[np.int64] | None = None
    """How far each row is behind the first, where some were left out."""
    may_be_header: bool = False
    """Whether the first row is the first of its file, and was not looked up in any list of names."""

    def __len__(self) -> int:
        if self.ids is not None:
            return len(self.ids)
        assert self.labels is not None
        return len(self.labels[0].starts)

    def refuse(self, column: int, row: int, what: str) -> DataError:
        """Return the error about one cell."""
        if self.labels is not None and self.place.unit == "line":  # blank lines are no rows, so lines are counted
            cell = self.labels[column]
            row = int(np.count_nonzero(cell.data[: cell.starts[row]] == ord("\n")))
        elif self.numbers is not None:
            row = int(self.numbers[row])
        return self.place.error(f"the {ROLES[column]} {what}", self.row + row)

    def refuse_blank(self, column: int, row: int) -> DataError:
        """Return the error about an empty cell."""
        return self.refuse(column, row, f"is empty{SKIP_HINT}")

    def first(self) -> list[str]:
        """Return the first row as text."""
        if self.ids is not None:
            return [str(number) for number in self.ids[0].tolist()]
        assert self.labels is not None
        return [labels.text(0) for labels in self.labels]

    def with_values(self, options: TableOptions) -> Piece:
        """Return the piece without the rows that have a cell without a value."""
        from staypositive.graph.on_disk import kernels

        if self.labels is None or not (options.skip_blank or options.na):
            return self
        words = sorted(word.encode("utf-8", "surrogatepass") for word in options.na)
        data = np.frombuffer(b"".join(words), dtype=np.uint8)
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        keep = np.ones(len(self), dtype=np.bool_)
        for labels in self.labels:
            kernels.mark_missing(labels.data, labels.starts, labels.lengths, data, ends, options.skip_blank, keep)
        if keep.all():
            return self
        head, relation, tail = (Labels(own.data, own.starts[keep], own.lengths[keep]) for own in self.labels)
        numbers = np.flatnonzero(keep) if self.numbers is None else self.numbers[keep]
        return replace(self, labels=(head, relation, tail), numbers=numbers, may_be_header=False)
