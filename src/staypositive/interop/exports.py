"""Graphs, embeddings and tables of predictions as files, in formats that other tools read."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from staypositive.errors import InputError, SettingError
from staypositive.files import write_atomic
from staypositive.graph import SPLITS, KnowledgeGraph, write_encoded, write_folder
from staypositive.interop.ntriples import BASE, statement, with_probabilities
from staypositive.run import Run

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
FORMATS = {
    "embeddings": ("npy", "parquet", "word2vec"),
    "graph": ("tsv", "parquet", "nt", "npz"),
    "scorer": ("onnx",),
}
"""What of a run can be exported, and how; the first format is the default."""
TRIPLE = ["head", "relation", "tail"]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet takes for a formula, or strips and then takes for one."""


def choose_format(what: str, format: str | None = None) -> str:
    """Return the format to export in: the one that is asked for, or else the first."""
    if format not in (None, *FORMATS[what]):
        raise SettingError(f"{what} can be exported as {', '.join(FORMATS[what])}, got {format!r}")
    return format or FORMATS[what][0]


def export_graph(graph: KnowledgeGraph, out: str | os.PathLike[str], format: str = "tsv", base: str = BASE) -> Path:
    """Write a graph; `tsv`, `parquet` and `nt` make a folder of train, valid and test, `npz` makes one file.

    N-Triples keep false triples in files of their own (`valid_negatives.nt`), and have no confidence.
    """
    import pandas as pd

    choose_format("graph", format)
    out = Path(out)
    if format == "tsv":
        return write_folder(graph, out)
    if format == "npz":
        write_encoded(out, graph)
        return out
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give a new folder, so that nothing is lost or mixed")
    for name in SPLITS:
        split = graph.split(name)
        if format == "parquet" and len(split):
            extra = {"label": split.labels, "confidence": split.weights}
            table = pd.DataFrame(graph.labelled(split.triples), columns=TRIPLE)
            table = table.assign(**{role: values for role, values in extra.items() if values is not None})
            write_atomic(out / f"{name}.parquet", _parquet(table))
        elif format == "nt":
            for stem, triples in ((name, split.facts), (f"{name}_negatives", split.falsehoods)):
                lines = [statement(labels, base) for labels in graph.labelled(triples)]
                if lines:
                    write_atomic(out / f"{stem}.nt", "".join(lines))
    return out


def export_embeddings(run: Run, out: str | os.PathLike[str], format: str = "npy") -> Path:
    """Write `run.embeddings` to a folder, for entities and relations apart.

    `npy`: `entities.npy`, and its labels as a list in `entities.json`; `parquet`: `entities.parquet`, a label and a
    vector in each row; `word2vec`: `entities.txt`, in word2vec's text format, which separates cells by spaces, so
    that white space in labels becomes `_`.
    """
    import pandas as pd

    choose_format("embeddings", format)
    out = Path(out)
    for kind, frame in run.embeddings.items():
        if format == "npy":
            stream = io.BytesIO()
            np.save(stream, frame.to_numpy(), allow_pickle=False)
            write_atomic(out / f"{kind}.npy", stream.getvalue())
            write_atomic(out / f"{kind}.json", json.dumps(list(frame.index), ensure_ascii=False, indent=0) + "\n")
        elif format == "parquet":
            table = pd.DataFrame({"label": frame.index, "vector": list(frame.to_numpy())})
            write_atomic(out / f"{kind}.parquet", _parquet(table))
        else:
            write_atomic(out / f"{kind}.txt", _word2vec(kind, frame))
    return out


def _word2vec(kind: str, frame: pd.DataFrame) -> str:
    words = ["_".join(label.split()) for label in frame.index]
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise InputError(f"two {kind} would both be called {word!r} in word2vec's format; export as npy or parquet")
    rows = zip(words, frame.to_numpy(), strict=True)
    lines = [f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in rows]
    return "".join([f"{len(frame)} {frame.shape[1]}\n", *lines])


def _separated(table: pd.DataFrame, mark: str) -> bytes:
    """Return a table as text; cells are quoted where they must be, or all if one holds a carriage return."""
    has_return = any("\r" in cell for name in table for cell in table[name] if isinstance(cell, str))
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL
    return str(table.to_csv(sep=mark, index=False, lineterminator="\n", quoting=quoting)).encode("utf-8")


def _parquet(table: pd.DataFrame) -> bytes:
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
    ".parquet": _parquet,
    ".nt": _ntriples,
}
"""How a table becomes a file, by the ending of its name."""


def require_table_path(path: Path) -> None:
    """Refuse a name whose ending is of no format that tables are written in."""
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
