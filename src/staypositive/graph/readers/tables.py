"""Tables in memory: pandas and polars frames, Arrow tables, and NumPy arrays of labels or ids.

Columns are found by name (head, relation, tail; subject, predicate, object; ...), whatever their order, or are the
first three. A column called label (or sign, truth) holds 1 and -1; one called confidence (or weight) a number from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.graph.labelled import ROLES, Encoder, LabelledTriples, Place, Signs, Weights, require_labels
from staypositive.graph.readers.names import (
    CONFIDENCE_NAMES,
    LABEL_NAMES,
    SHORT_NAMES,
    TRIPLE_NAMES,
    checked_weights,
    find_column,
)

Values = Callable[[int], NDArray[Any]]


def is_table(source: object) -> bool:
    """Return whether this is a frame, an Arrow table or an array."""
    return isinstance(source, np.ndarray) or hasattr(source, "columns")


def read_table(source: Any, name: str = "a table in memory") -> LabelledTriples:
    """Read a frame of pandas or polars, an Arrow table, or an array of shape (n, 3)."""
    names, values = _opened(source)
    encoder = Encoder(Place(unit="row"))
    add_table(names, values, encoder)
    if not encoder.rows:
        raise InputError("the table has no rows; expected a triple in each")
    return require_labels(encoder.finish(encoder.source(name)))


def add_table(names: Sequence[object], values: Values, encoder: Encoder) -> None:
    """Take the rows of a table, given by its column names and what each column holds."""
    triple, label, confidence = find_columns(names)
    columns = [_labels(values(place), role, encoder) for place, role in zip(triple, ROLES, strict=True)]
    lines = range(encoder.rows + 1, encoder.rows + 1 + len(columns[0]))
    signs = None if label is None else _signs(values(label), lines, encoder.place)
    weights = None if confidence is None else _weights(values(confidence), lines, encoder.place)
    encoder.add((columns[0], columns[1], columns[2]), lines, signs, weights)


def find_columns(names: Sequence[object]) -> tuple[list[int], int | None, int | None]:
    """Return the places of head, relation and tail, of the label and of the confidence."""
    if len(names) < 3:
        raise InputError(f"a table of triples has three columns or more, this one has {len(names)}")
    known = [TRIPLE_NAMES[part] | SHORT_NAMES[part] for part in range(3)]
    named = [find_column(names, among) for among in known]
    triple = [place for place in named if place is not None]
    triple = triple if len(triple) == 3 else [0, 1, 2]
    label, confidence = (find_column(names, among) for among in (LABEL_NAMES, CONFIDENCE_NAMES))
    return triple, None if label in triple else label, None if confidence in triple else confidence


def _opened(source: Any) -> tuple[Sequence[object], Values]:
    """Return the column names of a table, and what reads one of its columns."""
    if isinstance(source, np.ndarray):
        if source.ndim != 2 or source.shape[1] != 3:
            raise InputError(f"an array of triples has shape (n, 3), got {source.shape}")
        return ROLES, lambda place: source[:, place]
    if hasattr(source, "collect") and not hasattr(source, "iloc"):
        source = source.collect()  # a lazy frame of polars
    if hasattr(source, "column_names"):  # Arrow
        return source.column_names, lambda place: np.asarray(source.column(place).to_pandas())
    if hasattr(source, "iloc"):  # pandas
        return list(source.columns), lambda place: source.iloc[:, place].to_numpy()
    return list(source.columns), lambda place: source.to_series(place).to_numpy()


def _labels(values: NDArray[Any], role: str, encoder: Encoder) -> list[str]:
    """Return a column as labels: text as it is, whole numbers in decimal; anything else is an error."""
    if np.issubdtype(values.dtype, np.integer):
        return [str(value) for value in values.tolist()]
    cells: list[Any] = values.tolist()
    kinds = set(map(type, cells))
    if kinds <= {str}:
        return cells
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | int) or isinstance(cell, bool):
            what = "is missing" if cell is None or cell != cell else f"is {cell!r}, neither text nor a whole number"
            raise encoder.place.error(f"the {role} {what}", encoder.rows + row + 1)
    return [str(cell) for cell in cells]


def _signs(values: NDArray[Any], lines: Sequence[int], place: Place) -> Signs:
    good = np.isin(values, (1, -1)) if values.dtype != object else np.array([cell in (1, -1) for cell in values])
    if not good.all():
        row = int(np.argmin(good))
        raise place.error(f"expected 1 or -1 as a label, found {values[row]!r}", lines[row])
    return values.astype(np.int8)


def _weights(values: NDArray[Any], lines: Sequence[int], place: Place) -> Weights:
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.array([cell if isinstance(cell, int | float) else np.nan for cell in values], dtype=np.float64)
    return checked_weights(numbers, values.tolist(), lines, place)
