"""Readers: one small file for each kind of input, found by the ending of a file's name.

`register_reader` adds one for another kind of file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.labelled import LabelledTriples, Place
from staypositive.graph.readers.columns import ColumnNames, TableOptions, looks_like_header, told
from staypositive.graph.readers.opening import PACKED, plain_name
from staypositive.graph.readers.rdf import FORMATS, RdfTerms, read_rdf
from staypositive.graph.readers.sparql import Sparql, is_endpoint, read_sparql
from staypositive.graph.readers.tables import encode_table, is_table, read_parquet, read_table
from staypositive.graph.readers.text import read_text

__all__ = [
    "PACKED", "READERS", "ColumnNames", "RdfTerms", "Sparql", "TableOptions", "is_endpoint", "is_table",
    "looks_like_header", "read_file", "read_sparql", "read_table", "read_triples", "register_reader", "told",
]  # fmt: skip

Reader = Callable[[Path, TableOptions, RdfTerms, str], LabelledTriples]
READERS: dict[str, Reader] = {
    **dict.fromkeys((".txt", ".tsv", ".csv"), read_text),
    ".parquet": read_parquet,
    **dict.fromkeys(FORMATS, read_rdf),
}
"""Readers by ending, packing (.gz, .zst) left out; a file with any other ending is read as tab-separated text."""


def register_reader(suffixes: str | Iterable[str], read: Callable[[Path], Any]) -> None:
    """Read files whose names end in `suffixes` by `read`, wherever triples are read: in `load_graph`, say.

    `read` takes a path, as it is on disk even where packed, and returns what `load_graph` takes as a table: a list of
    triples, a frame, or an array. The longest ending that fits counts; `del READERS[suffix]` takes it back.
    """

    def reader(path: Path, options: TableOptions, terms: RdfTerms, scope: str) -> LabelledTriples:
        try:
            return encode_table(read(path), path.name, sha256_file(path), options, Place(path, "row"))
        except DataError:
            raise
        except (InputError, OSError) as error:
            raise DataError(str(error), path) from error

    for suffix in [suffixes] if isinstance(suffixes, str) else suffixes:
        if not suffix.startswith(".") or suffix != suffix.lower():
            raise InputError(f"the ending of a file's name begins with a dot, in lower case; got {suffix!r}")
        READERS[suffix] = reader


def read_triples(
    path: str | os.PathLike[str], header: bool | None = None, terms: RdfTerms | None = None, *,
    columns: ColumnNames | None = None, skip_blank: bool = False, na: str | Iterable[str] = (),
) -> LabelledTriples:  # fmt: skip
    """Read one file of triples: text, CSV, Parquet or RDF, by the ending of its name; text and RDF may be packed.

    `header` says whether the first line of text names the columns; None looks whether it has the names of head,
    relation and tail. `columns`, `skip_blank` and `na` are as in `load_graph`; `terms` says how RDF terms become
    labels.
    """
    return read_file(Path(path), TableOptions.of(header, columns, skip_blank, na), terms)


def read_file(path: Path, options: TableOptions, terms: RdfTerms | None = None, scope: str = "") -> LabelledTriples:
    """Read one file of triples as `read_triples` does; `scope` stands before the numbers of blank nodes."""
    name = plain_name(path)[1:]  # a name that is nothing but an ending has none
    suffix = max((suffix for suffix in READERS if name.endswith(suffix)), key=len, default=".txt")
    return told(READERS[suffix](path, options, terms or RdfTerms(), scope))
