"""Readers: one small file for each kind of input, found by the ending of a file's name in `registry`."""

from staypositive.graph.readers.columns import told
from staypositive.graph.readers.folders import read_folder, read_splits, require_facts
from staypositive.graph.readers.names import looks_like_header
from staypositive.graph.readers.options import ColumnNames, TableOptions
from staypositive.graph.readers.registry import READERS, read_file, read_triples
from staypositive.graph.readers.sparql import Sparql, read_sparql
from staypositive.graph.readers.tables import is_table, read_table
from staypositive.graph.readers.terms import RdfTerms

__all__ = [
    "READERS",
    "ColumnNames",
    "RdfTerms",
    "Sparql",
    "TableOptions",
    "is_table",
    "looks_like_header",
    "read_file",
    "read_folder",
    "read_sparql",
    "read_splits",
    "read_table",
    "read_triples",
    "require_facts",
    "told",
]
