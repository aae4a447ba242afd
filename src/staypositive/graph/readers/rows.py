"""Rows of any table on their way to an encoder: those without a value are left out, labels and weights checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import compress
from typing import Any, NoReturn

import numpy as np

from staypositive.errors import InputError
from staypositive.graph.labelled import SKIP_HINT, Encoder, LabelledTriples, Place, require_labels
from staypositive.graph.readers.columns import SIGNS, Places, TableOptions, describe

Piece = tuple[Sequence[Sequence[Any]], Sequence[int]]
"""Some rows as columns, and the number of each row's line."""


def add_rows(
    encoder: Encoder,
    triple: Sequence[Sequence[str | None]],
    extra: Sequence[Sequence[Any] | None],
    lines: Sequence[int],
    options: TableOptions,
    where: str = "as a label",
    hint: str = "",
) -> None:
    """Take rows: the columns of head, relation and tail, and those of label and confidence, where there are any."""
    (label, confidence), kept = extra, options.kept(triple)
    if kept is not None:
        encoder.left_out += len(kept) - sum(kept)
        columns = (None if cells is None else list(compress(cells, kept)) for cells in (*triple, *extra, lines))
        *triple, label, confidence, lines = columns  # type: ignore[assignment]
    signs = weights = None
    if label is not None:
        known = [_sign(cell) for cell in label]
        if None in known:
            row = known.index(None)
            said = f"expected 1 or -1 {where}, found {repr(label[row])[:80]}{hint}"
            refuse_row(encoder, triple, lines, row, said)
        signs = np.array(known, dtype=np.int8)
    if confidence is not None:
        numbers = _numbers(confidence)
        bad = np.flatnonzero(~((numbers <= np.finfo(np.float32).max) & (numbers >= 0)))
        if len(bad):
            said = f"expected a number from 0 as confidence, found {repr(confidence[bad[0]])[:80]}"
            refuse_row(encoder, triple, lines, int(bad[0]), said)
        weights = numbers.astype(np.float32)
    encoder.add(tuple(triple), lines, signs, weights)  # type: ignore[arg-type]


def refuse_row(encoder: Encoder, triple: Sequence[Any], lines: Sequence[int], row: int, said: str) -> NoReturn:
    """Raise the fault of a row, unless some row before it, or itself, has a label that is blank."""
    upto = [cells[: row + 1] for cells in triple]
    encoder.add(tuple(upto), lines[: row + 1])
    require_labels(encoder.finish(""))
    raise encoder.place.error(said, int(lines[row]))


def finish_rows(
    encoder: Encoder, name: str, sha256: str, names: Sequence[object], places: Places, options: TableOptions
) -> LabelledTriples:
    """Return all rows of a table, with a note of how they were read; without names there is nothing to tell."""
    notes = options.note(encoder.left_out)
    if not encoder.rows:
        said = f"the table has no rows{f' ({notes[0]})' if notes else ''}; expected a triple in each"
        raise encoder.place.error(said) if encoder.place.path else InputError(said)
    found = encoder.finish(name, sha256, notes)
    return dataclasses.replace(found, layout=describe(names, places, found.triple(0)) if names else "")


def labels_of(cells: Sequence[Any], what: str, first: int, place: Place, may_miss: bool) -> Sequence[str | None]:
    """Return cells as labels: text as it is, whole numbers in decimal; anything else is an error.

    `first` is the number of the first row. A missing value is an error too, or None where values `may_miss`.
    """
    kinds = set(map(type, cells))
    if kinds <= {str}:
        return cells
    if kinds == {int}:
        return list(map(str, cells))
    labels: list[str | None] = []
    for row, cell in enumerate(cells, first):
        if isinstance(cell, str | int | np.integer) and not isinstance(cell, bool):
            labels.append(str(cell))
        elif may_miss and _is_missing(cell):
            labels.append(None)
        else:
            other = f"is {repr(cell)[:80]}, neither text nor a whole number"
            raise place.error(f"{what} {f'is missing{SKIP_HINT}' if _is_missing(cell) else other}", row)
    return labels


def _is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA of pandas, of which the last two are known by their types."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | np.floating) and bool(cell != cell)


def _sign(cell: Any) -> int | None:
    if isinstance(cell, str):
        return SIGNS.get(cell)
    is_number = isinstance(cell, int | float | np.integer | np.floating)
    return int(cell) if is_number and cell in (1, -1) else None


def _numbers(cells: Sequence[Any]) -> Any:
    """Return cells as numbers, NaN where they are none."""
    try:
        numbers = np.asarray(cells, dtype=np.float64)
        return numbers if numbers.ndim == 1 else np.array(list(map(_number, cells)))
    except (TypeError, ValueError, OverflowError):
        return np.array(list(map(_number, cells)))


def _number(cell: Any) -> float:
    try:
        return float(cell) if isinstance(cell, str | int | float | np.integer | np.floating) else float("nan")
    except (ValueError, OverflowError):
        return float("nan")
