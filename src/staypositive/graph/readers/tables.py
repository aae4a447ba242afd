"""Tables: pandas and polars frames, Arrow tables, NumPy arrays, lists of triples; Parquet files (extra `parquet`).

Columns are found by name (head, relation, tail; subject, predicate, object; ...), whatever their order, or are the
first three. A column called label (or sign, truth) holds 1 and -1; one called confidence (or weight) a number from 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError, import_optional
from staypositive.files import sha256_file
from staypositive.graph.labelled import ROLES, SKIP_HINT, Encoder, LabelledTriples, Place
from staypositive.graph.readers.columns import SIGNS, Places, TableOptions, describe, find_columns, folded, told
from staypositive.graph.readers.opening import require_modest

ROWS = 1 << 16  # rows of a Parquet file taken at once
Piece = tuple[Sequence[Sequence[Any]], Sequence[int]]
"""Some rows as columns, and the number of each row's line."""
Column = Callable[[int], NDArray[Any]]
"""Reads the column of a table at some place."""


def is_table(source: object) -> bool:
    return isinstance(source, np.ndarray | list | tuple) or hasattr(source, "columns")


def read_table(source: Any, name: str = "a table in memory", options: TableOptions | None = None) -> LabelledTriples:
    """Read a frame of pandas or polars, an Arrow table, an array of shape (n, 3), or a list of triples."""
    return told(encode_table(source, name, "", options or TableOptions(), Place(unit="row")))


def encode_table(table: Any, name: str, sha256: str, options: TableOptions, place: Place) -> LabelledTriples:
    names, column = _opened(table)
    encoder = Encoder(place)
    places = find_columns(names, options.columns)
    _add(names, column, places, encoder, options)
    has_names = not isinstance(table, np.ndarray | list | tuple) or bool(options.columns)
    return finish_rows(encoder, name, sha256, names if has_names else (), places, options)


def _opened(source: Any) -> tuple[Sequence[object], Column]:
    """Return the column names of a table, and what reads one of its columns."""
    if isinstance(source, list | tuple):
        for number, row in enumerate(source, 1):
            if not isinstance(row, list | tuple | np.ndarray) or len(row) != 3:
                raise InputError(f"row {number}: expected a triple (head, relation, tail), got {row!r:.80}")
        return ROLES, lambda place: np.fromiter((row[place] for row in source), dtype=object, count=len(source))
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


def _add(names: Sequence[object], column: Column, places: Places, encoder: Encoder, options: TableOptions) -> None:
    first = encoder.rows + encoder.left_out + 1
    triple = []
    for role, place in zip(ROLES, places.triple, strict=True):
        what = f"the {role}" if folded(names[place]) == role else f"the {role} (column {names[place]!r:.80})"
        triple.append(labels_of(_cells(column(place)), what, first, encoder.place, options.skip_blank))
    extra = [None if place is None else column(place).tolist() for place in places[1:]]
    add_rows(encoder, triple, extra, range(first, first + len(triple[0])), options)


def _cells(values: NDArray[Any]) -> list[Any]:
    """Return a column's values; whole numbers stay such in a column of floats only because some are missing."""
    cells: list[Any] = list(values) if values.dtype.kind in "mM" else values.tolist()  # a date is no number
    if values.dtype.kind != "f":
        return cells
    present = [cell for cell in cells if isinstance(cell, float) and cell == cell]
    if len(present) == len(cells) or not all(cell.is_integer() and abs(cell) < 2**53 for cell in present):
        return cells
    return [int(cell) if isinstance(cell, float) and cell == cell else None for cell in cells]


def read_parquet(path: Path, options: TableOptions, *_: object) -> LabelledTriples:
    """Read one Parquet file; columns are found as in a frame, and the others are not read."""
    encoder = Encoder(Place(path, "row"))
    names: list[str] = []
    places = Places((0, 1, 2))
    with opened_parquet(path) as file:
        stated = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
        require_modest(path, path.stat().st_size, max(sum(stated), 12 * file.metadata.num_rows))
        for names, places, columns in parquet_batches(file, options, ROWS):
            arrays = {place: column.to_numpy(zero_copy_only=False) for place, column in columns.items()}
            _add(names, arrays.__getitem__, places, encoder, options)
    return finish_rows(encoder, path.name, sha256_file(path), names, places, options)


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file, and name it in whatever goes wrong with it."""
    parquet = import_optional("pyarrow.parquet", "Parquet", "parquet")
    try:
        path.stat()  # whose errors are plainer than pyarrow's
        with parquet.ParquetFile(path) as file:
            yield file
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error), path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # pyarrow has an error for each way in which bytes can be wrong
        raise DataError(f"not a readable Parquet file: {error or type(error).__name__}", path) from error


def parquet_batches(
    file: Any, options: TableOptions, rows: int
) -> Iterator[tuple[list[str], Places, dict[int, Any]]]:
    """Yield the columns' names and places with each batch of Arrow columns, by place."""
    names = file.schema_arrow.names
    places = find_columns(names, options.columns)
    chosen = {place: names[place] for place in places.by_role.values()}
    twin = next((name for name in chosen.values() if names.count(name) > 1), None)
    if twin is not None:
        raise InputError(f"two columns are called {twin!r:.80}; rename one")
    for batch in file.iter_batches(rows, columns=list(chosen.values())):
        at = {place: batch.column(batch.schema.get_field_index(name)) for place, name in chosen.items()}
        yield names, places, at


def add_rows(
    encoder: Encoder, triple: Sequence[Sequence[str | None]], extra: Sequence[Sequence[Any] | None],
    lines: Sequence[int], options: TableOptions, where: str = "as a label", hint: str = "",
) -> None:  # fmt: skip
    """Add rows: the columns of head, relation and tail, and those of label and confidence, where there are any."""
    (label, confidence), kept = extra, options.kept(triple)
    if kept is not None:
        encoder.left_out += len(kept) - sum(kept)
        columns = (None if cells is None else list(compress(cells, kept)) for cells in (*triple, *extra, lines))
        *triple, label, confidence, lines = columns  # type: ignore[assignment]
    ids = encoder.number(tuple(triple), lines)  # type: ignore[arg-type]
    signs = weights = None
    if label is not None:
        known = [_sign(cell) for cell in label]
        if None in known:
            row = known.index(None)
            said = f"expected 1 or -1 {where}, found {repr(label[row])[:80]}{hint}"
            raise encoder.place.error(said, int(lines[row]))
        signs = np.array(known, dtype=np.int8)
    if confidence is not None:
        numbers = np.array(list(map(_number, confidence)), dtype=np.float64)
        bad = np.flatnonzero(~((numbers <= np.finfo(np.float32).max) & (numbers >= 0)))
        if len(bad):
            said = f"expected a number from 0 as confidence, found {repr(confidence[bad[0]])[:80]}"
            raise encoder.place.error(said, int(lines[bad[0]]))
        weights = numbers.astype(np.float32)
    encoder.keep(ids, lines, signs, weights)


def finish_rows(
    encoder: Encoder, name: str, sha256: str, names: Sequence[object], places: Places, options: TableOptions
) -> LabelledTriples:
    """Return all rows, with a note of how they were read; without names there is nothing to tell."""
    found = encoder.finish(name, sha256, options.note(encoder.left_out))
    return dataclasses.replace(found, layout=describe(names, places, found.triple(0)) if names else "")


def labels_of(cells: Sequence[Any], what: str, first: int, place: Place, may_miss: bool) -> Sequence[str | None]:
    """Return cells, of which row `first` is the first, as labels: text as it is, whole numbers in decimal.

    Anything else is an error; a missing value is one too, or None where values `may_miss`.
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
    import pandas as pd

    return pd.api.types.is_scalar(cell) and bool(pd.isna(cell))


def _sign(cell: Any) -> int | None:
    is_number = isinstance(cell, int | float | np.integer | np.floating) and cell in (1, -1)
    return SIGNS.get(cell if isinstance(cell, str) else str(int(cell)) if is_number else "")


def _number(cell: Any) -> float:
    """Return a cell as a number, NaN where it is none."""
    try:
        return float("nan") if isinstance(cell, np.ndarray) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
