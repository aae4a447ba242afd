"""Which reader a file has, by the ending of its name: a new kind of file is one line here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from staypositive.graph.labelled import LabelledTriples, require_labels
from staypositive.graph.readers.opening import plain_suffix
from staypositive.graph.readers.parquet import read_parquet
from staypositive.graph.readers.rdf import FORMATS, read_rdf
from staypositive.graph.readers.terms import RdfTerms
from staypositive.graph.readers.text import read_text

Reader = Callable[[Path, bool | None, RdfTerms, str], LabelledTriples]


def _text(path: Path, header: bool | None, terms: RdfTerms, scope: str) -> LabelledTriples:
    return read_text(path, header)


def _parquet(path: Path, header: bool | None, terms: RdfTerms, scope: str) -> LabelledTriples:
    return read_parquet(path)


def _rdf(path: Path, header: bool | None, terms: RdfTerms, scope: str) -> LabelledTriples:
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
    path: str | os.PathLike[str], header: bool | None = None, terms: RdfTerms | None = None, *, scope: str = ""
) -> LabelledTriples:
    """Read one file of triples: text, CSV, Parquet or RDF, by the ending of its name; text and RDF may be packed.

    `header` says whether the first line of text names the columns; None looks whether it reads like head, relation,
    tail. `terms` says how RDF terms become labels; `scope` stands before the numbers of blank nodes.
    """
    path = Path(path)
    reader = READERS.get(plain_suffix(path), _text)
    return require_labels(reader(path, header, terms or RdfTerms(), scope))
