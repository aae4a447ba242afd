"""Tables of predictions and discoveries as files: TSV, CSV, Parquet or N-Triples, by the ending of the name."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.interop.ntriples import with_probabilities

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

TRIPLE = ["head", "relation", "tail"]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet takes for a formula, or for something to look behind for one."""


def _separated(table: pd.DataFrame, mark: str) -> bytes:
    """Return a table as text; cells are quoted where they must be, or all if one holds a carriage return."""
    has_return = any("\r" in cell for name in table for cell in table[name] if isinstance(cell, str))
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL
    return str(table.to_csv(sep=mark, index=False, lineterminator="\n", quoting=quoting)).encode("utf-8")


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
    ".tsv": partial(_separated, mark="\t"),
    ".txt": partial(_separated, mark="\t"),
    ".csv": partial(_separated, mark=","),
    ".parquet": to_parquet,
    ".nt": _ntriples,
}
"""How a table becomes a file, by the ending of its name."""


def require_table_path(path: Path) -> None:
    """Find out, before the work is done, whether a table can be written under that name."""
    if path.suffix.lower() not in TABLE_WRITERS:
        endings = ", ".join(f"a {suffix}" for suffix in TABLE_WRITERS)
        raise InputError(f"the output is one of {endings} file, got {path.name!r}")


def write_table(table: pd.DataFrame, path: Path, *, spreadsheet_safe: bool = False) -> Path:
    """Write a table, whole or not at all, in the format that the name's ending says.

    Labels are written to the letter, so that what is read again is what was written. A spreadsheet that opens the
    file would run a label such as `=HYPERLINK(...)`: `spreadsheet_safe` puts an apostrophe before those of a CSV or
    TSV file, and a CSV file without it that holds any is warned of.
    """
    require_table_path(path)
    suffix = path.suffix.lower()
    if spreadsheet_safe and suffix not in (".csv", ".tsv", ".txt"):
        raise InputError(f"only CSV and TSV files are made safe for spreadsheets, not {path.name!r}")
    if suffix == ".csv" or spreadsheet_safe:
        guarded, found = _guarded(table)
        if spreadsheet_safe:
            table = guarded
        elif found:
            log.warning("%s: a spreadsheet would take %d cells for formulas; see --spreadsheet-safe", path, found)
    return write_atomic(path, TABLE_WRITERS[suffix](table))


def _guarded(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return a table with an apostrophe before each text that begins like a formula, and how many those are."""
    found, columns = 0, {}
    for name in table.columns:
        cells = table[name].tolist()
        begins = [isinstance(cell, str) and cell.startswith(FORMULA) for cell in cells]
        if any(begins):
            found += sum(begins)
            columns[name] = [f"'{cell}" if begin else cell for cell, begin in zip(cells, begins, strict=True)]
    return table.assign(**columns), found
