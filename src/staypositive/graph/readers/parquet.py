"""Parquet files, through pyarrow (extra `parquet`), row group by row group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.labelled import Encoder, LabelledTriples, Place, Source
from staypositive.graph.readers.columns import Places, find_columns
from staypositive.graph.readers.opening import require_modest
from staypositive.graph.readers.options import TableOptions
from staypositive.graph.readers.tables import Table, add_table, finish_table

ROWS = 1 << 16


def import_parquet() -> Any:
    """Return pyarrow's module for Parquet, or say how to get it."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError("Parquet needs pyarrow: pip install 'staypositive[parquet]'") from None
    return pyarrow.parquet


def read_parquet(path: Path, options: TableOptions) -> LabelledTriples:
    """Read one Parquet file; columns are found as in a frame, and the others are not read."""
    library = import_parquet()
    encoder = Encoder(Place(path, "row"))
    try:
        digest = sha256_file(path)
        with library.ParquetFile(path) as file:
            _require_modest(path, file.metadata)
            names = file.schema_arrow.names
            places = find_columns(names, options.columns)
            for batch in file.iter_batches(ROWS, columns=column_names(names, places)):
                add_table(Table(names, partial(_values, batch, names)), places, encoder, options)
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error), path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # pyarrow has an error for each way in which bytes can be wrong
        raise DataError(f"not a readable Parquet file: {error or type(error).__name__}", path) from error
    return finish_table(encoder, Source(path.name, digest, encoder.rows), names, places, options)


def column_names(names: Sequence[str], places: Places) -> list[str]:
    """Return the columns to read from a file, which goes by their names."""
    chosen = [names[place] for place in places.by_role.values()]
    twin = next((name for name in chosen if names.count(name) > 1), None)
    if twin is not None:
        raise InputError(f"two columns are called {twin!r:.80}; rename one")
    return chosen


def _require_modest(path: Path, about: Any) -> None:
    """Refuse a file of which a few bytes stand for many rows, or for pages of any size."""
    stated = [about.row_group(number).total_byte_size for number in range(about.num_row_groups)]
    require_modest(path, path.stat().st_size, max(sum(stated), 12 * about.num_rows))


def _values(batch: Any, names: Sequence[str], place: int) -> Any:
    return batch.column(batch.schema.get_field_index(names[place])).to_numpy(zero_copy_only=False)
