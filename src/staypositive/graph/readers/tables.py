"""Tables in memory: pandas and polars frames, Arrow tables, and NumPy arrays of labels or ids.

Columns are found by name (head, relation, tail; subject, predicate, object; ...), whatever their order, or are the
first three. A column called label (or sign, truth) holds 1 and -1; one called confidence (or weight) a number from 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.graph.labelled import (
    ROLES,
    SKIP_HINT,
    Columns,
    Encoder,
    LabelledTriples,
    Place,
    Signs,
    Source,
    Weights,
    require_labels,
)
from staypositive.graph.readers.columns import Places, describe, told
from staypositive.graph.readers.columns import find_columns as find_columns
from staypositive.graph.readers.names import as_number, checked_weights, folded
from staypositive.graph.readers.options import TableOptions, selected


@dataclass(frozen=True)
class Table:
    """The names of a table's columns, and what reads one of them."""

    names: Sequence[object]
    values: Callable[[int], NDArray[Any]]


def is_table(source: object) -> bool:
    """Return whether this is a frame, an Arrow table or an array."""
    return isinstance(source, np.ndarray) or hasattr(source, "columns")


def read_table(source: Any, name: str = "a table in memory", options: TableOptions | None = None) -> LabelledTriples:
    """Read a frame of pandas or polars, an Arrow table, or an array of shape (n, 3)."""
    options, table = options or TableOptions(), _opened(source)
    encoder = Encoder(Place(unit="row"))
    places = find_columns(table.names, options.columns)
    add_table(table, places, encoder, options)
    is_array = isinstance(source, np.ndarray) and not options.columns
    found = finish_table(encoder, encoder.source(name), () if is_array else table.names, places, options)
    return told(require_labels(found))


def add_table(table: Table, places: Places, encoder: Encoder, options: TableOptions) -> None:
    """Take the rows of a table."""
    before = encoder.rows + encoder.left_out
    columns: list[Sequence[str | None]] = []
    for role, place in zip(ROLES, places.triple, strict=True):
        name = table.names[place]
        what = f"the {role}" if folded(name) == role else f"the {role} (column {name!r:.80})"
        columns.append(_labels(table.values(place), what, before, encoder.place, options.skip_blank))
    lines: Sequence[int] = range(before + 1, before + 1 + len(columns[0]))
    label, confidence = (None if place is None else table.values(place) for place in places[1:])
    kept = options.kept(columns)
    if kept is not None:
        *chosen, numbers = selected(kept, *columns, lines)
        columns, lines = [cells or [] for cells in chosen], numbers or []
        label, confidence = (None if cells is None else cells[np.array(kept)] for cells in (label, confidence))
        encoder.left_out += len(kept) - len(lines)
    signs = None if label is None else _signs(label, lines, encoder.place)
    weights = None if confidence is None else _weights(confidence, lines, encoder.place)
    encoder.add(cast(Columns, tuple(columns)), lines, signs, weights)


def finish_table(
    encoder: Encoder, source: Source, names: Sequence[object], places: Places, options: TableOptions
) -> LabelledTriples:
    """Return all rows, with a note of how they were read; an array has no names to tell of."""
    notes = options.note(encoder.left_out)
    if not encoder.rows:
        said = f"the table has no rows{f' ({notes[0]})' if notes else ''}; expected a triple in each"
        raise encoder.place.error(said) if encoder.place.path else InputError(said)
    found = encoder.finish(source, notes)
    return dataclasses.replace(found, layout=describe(names, places, found.triple(0)) if names else "")


def _opened(source: Any) -> Table:
    """Return the column names of a table, and what reads one of its columns."""
    if isinstance(source, np.ndarray):
        if source.ndim != 2 or source.shape[1] != 3:
            raise InputError(f"an array of triples has shape (n, 3), got {source.shape}")
        return Table(ROLES, lambda place: source[:, place])
    if hasattr(source, "collect") and not hasattr(source, "iloc"):
        source = source.collect()  # a lazy frame of polars
    if hasattr(source, "column_names"):  # Arrow
        return Table(source.column_names, lambda place: np.asarray(source.column(place).to_pandas()))
    if hasattr(source, "iloc"):  # pandas
        return Table(list(source.columns), lambda place: source.iloc[:, place].to_numpy())
    return Table(list(source.columns), lambda place: source.to_series(place).to_numpy())


def _labels(values: NDArray[Any], what: str, before: int, place: Place, may_miss: bool) -> Sequence[str | None]:
    """Return a column as labels: text as it is, whole numbers in decimal; anything else is an error.

    A missing value is an error too, or None where values may be missing.
    """
    cells: list[Any] = list(values) if values.dtype.kind in "mM" else values.tolist()  # a date is no number
    if values.dtype.kind == "f":
        cells = _whole_again(cells)
    kinds = set(map(type, cells))
    if kinds <= {str}:
        return cells
    if kinds == {int}:
        return list(map(str, cells))
    labels: list[str | None] = []
    for row, cell in enumerate(cells):
        if isinstance(cell, str | int | np.integer) and not isinstance(cell, bool):
            labels.append(str(cell))
        elif may_miss and _is_missing(cell):
            labels.append(None)
        else:
            other = f"is {repr(cell)[:80]}, neither text nor a whole number"
            said = f"is missing{SKIP_HINT}" if _is_missing(cell) else other
            raise place.error(f"{what} {said}", before + row + 1)
    return labels


def _whole_again(cells: list[Any]) -> list[Any]:
    """Return whole numbers as such in a column that is of floats only because some are missing."""
    present = [cell for cell in cells if isinstance(cell, float) and cell == cell]
    if len(present) == len(cells) or not all(cell.is_integer() and abs(cell) < 2**53 for cell in present):
        return cells
    return [int(cell) if isinstance(cell, float) and cell == cell else None for cell in cells]


def _is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA of pandas, of which the last two are known by their types."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | np.floating) and bool(cell != cell)


def _signs(values: NDArray[Any], lines: Sequence[int], place: Place) -> Signs:
    cells = values.tolist()
    numbers = (int, float, np.integer, np.floating)
    good = [isinstance(cell, numbers) and cell in (1, -1) for cell in cells]
    if not all(good):
        row = good.index(False)
        raise place.error(f"expected 1 or -1 as a label, found {repr(cells[row])[:80]}", lines[row])
    return np.array(cells, dtype=np.int8)


def _weights(values: NDArray[Any], lines: Sequence[int], place: Place) -> Weights:
    cells = values.tolist()
    plain = values.ndim == 1 and values.dtype.kind in "biuf"
    numbers = values.astype(np.float64) if plain else np.array([as_number(cell) for cell in cells], dtype=np.float64)
    return checked_weights(numbers, cells, lines, place)
