"""Tables of predictions and discoveries as files: TSV, CSV, Parquet or N-Triples, by the ending of the name."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from staypositive.errors import InputError
from staypositive.export.ntriples import with_probabilities
from staypositive.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

TRIPLE = ["head", "relation", "tail"]


def _tsv(table: pd.DataFrame) -> bytes:
    return str(table.to_csv(sep="\t", index=False, lineterminator="\n")).encode("utf-8")


def _csv(table: pd.DataFrame) -> bytes:
    return str(table.to_csv(index=False, lineterminator="\n")).encode("utf-8")


def to_parquet(table: pd.DataFrame) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    stream = io.BytesIO()
    try:
        table.to_parquet(stream, index=False)
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'staypositive[parquet]'; or write a .tsv file") from None
    return stream.getvalue()


def _ntriples(table: pd.DataFrame) -> bytes:
    missing = [name for name in (*TRIPLE, "probability") if name not in table.columns]
    if missing:
        raise InputError(f"N-Triples need whole triples and their probability; this table has no {missing[0]}")
    rows = table[TRIPLE].itertuples(index=False, name=None)
    return "".join(with_probabilities(rows, table["probability"])).encode("utf-8")


TABLE_WRITERS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    ".tsv": _tsv,
    ".txt": _tsv,
    ".csv": _csv,
    ".parquet": to_parquet,
    ".nt": _ntriples,
}
"""How a table becomes a file, by the ending of its name."""


def require_table_path(path: Path) -> None:
    """Find out, before the work is done, whether a table can be written under that name."""
    if path.suffix.lower() not in TABLE_WRITERS:
        endings = ", ".join(f"a {suffix}" for suffix in TABLE_WRITERS)
        raise InputError(f"the output is one of {endings} file, got {path.name!r}")


def write_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table, whole or not at all, in the format that the name's ending says."""
    require_table_path(path)
    return write_atomic(path, TABLE_WRITERS[path.suffix.lower()](table))
