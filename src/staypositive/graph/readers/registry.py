"""Which reader a file has, by the ending of its name: a new kind of file is one line here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from staypositive.graph.labelled import LabelledTriples, require_labels
from staypositive.graph.readers.columns import told
from staypositive.graph.readers.opening import plain_suffix
from staypositive.graph.readers.options import ColumnNames, TableOptions
from staypositive.graph.readers.parquet import read_parquet
from staypositive.graph.readers.rdf import FORMATS, read_rdf
from staypositive.graph.readers.terms import RdfTerms
from staypositive.graph.readers.text import read_text

Reader = Callable[[Path, TableOptions, RdfTerms, str], LabelledTriples]


def _text(path: Path, options: TableOptions, terms: RdfTerms, scope: str) -> LabelledTriples:
    return read_text(path, options)


def _parquet(path: Path, options: TableOptions, terms: RdfTerms, scope: str) -> LabelledTriples:
    return read_parquet(path, options)


def _rdf(path: Path, options: TableOptions, terms: RdfTerms, scope: str) -> LabelledTriples:
    options.refuse(str(path))
    return read_rdf(path, terms, scope)


READERS: dict[str, Reader] = {
    ".txt": _text,
    ".tsv": _text,
    ".csv": _text,
    ".parquet": _parquet,
    **dict.fromkeys(FORMATS, _rdf),
}
"""Readers by ending, packing (.gz, .zst) left out; a file with any other ending is read as tab-separated text."""


def read_triples(
    path: str | os.PathLike[str],
    header: bool | None = None,
    terms: RdfTerms | None = None,
    *,
    columns: ColumnNames | None = None,
    skip_blank: bool = False,
    na: str | Iterable[str] = (),
) -> LabelledTriples:
    """Read one file of triples: text, CSV, Parquet or RDF, by the ending of its name; text and RDF may be packed.

    `header` says whether the first line of text names the columns; None looks whether it has the names of head,
    relation and tail. `columns`, `skip_blank` and `na` are as in `load_graph`; `terms` says how RDF terms become
    labels.
    """
    return read_file(Path(path), TableOptions.of(header, columns, skip_blank, na), terms)


def read_file(path: Path, options: TableOptions, terms: RdfTerms | None = None, scope: str = "") -> LabelledTriples:
    """Read one file of triples as `read_triples` does; `scope` stands before the numbers of blank nodes."""
    reader = READERS.get(plain_suffix(path), _text)
    return told(require_labels(reader(path, options, terms or RdfTerms(), scope)))
