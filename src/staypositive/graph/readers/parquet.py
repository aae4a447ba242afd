"""Parquet files, through pyarrow (extra `parquet`), row group by row group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.labelled import Encoder, LabelledTriples, Place, Source
from staypositive.graph.readers.opening import require_modest
from staypositive.graph.readers.tables import add_table, find_columns

ROWS = 1 << 16


def import_parquet() -> Any:
    """Return pyarrow's module for Parquet, or say how to get it."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError("Parquet needs pyarrow: pip install 'staypositive[parquet]'") from None
    return pyarrow.parquet


def read_parquet(path: Path) -> LabelledTriples:
    """Read one Parquet file; columns are found as in a frame, and the others are not read."""
    library = import_parquet()
    encoder = Encoder(Place(path, "row"))
    try:
        digest = sha256_file(path)
        with library.ParquetFile(path) as file:
            _require_modest(path, file.metadata)
            names = file.schema_arrow.names
            triple, *others = find_columns(names)
            wanted = [names[place] for place in (*triple, *others) if place is not None]
            for batch in file.iter_batches(ROWS, columns=wanted):
                add_table(batch.schema.names, lambda place, batch=batch: _values(batch.column(place)), encoder)  # type: ignore[misc]
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error), path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # pyarrow has an error for each way in which bytes can be wrong
        raise DataError(f"not a readable Parquet file: {error or type(error).__name__}", path) from error
    if not encoder.rows:
        raise DataError("no triples here", path)
    return encoder.finish(Source(path.name, digest, encoder.rows))


def _require_modest(path: Path, about: Any) -> None:
    """Refuse a file of which a few bytes stand for many rows, or for pages of any size."""
    stated = [about.row_group(number).total_byte_size for number in range(about.num_row_groups)]
    require_modest(path, path.stat().st_size, max(sum(stated), 12 * about.num_rows))


def _values(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)
