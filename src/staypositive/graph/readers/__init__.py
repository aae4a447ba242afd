"""Readers: one small file for each kind of input, found by the ending of a file's name in `registry`."""

from staypositive.graph.readers.columns import ColumnNames, TableOptions, looks_like_header, told
from staypositive.graph.readers.rdf import RdfTerms
from staypositive.graph.readers.registry import READERS, read_file, read_triples, register_reader
from staypositive.graph.readers.sparql import Sparql, is_endpoint, read_sparql
from staypositive.graph.readers.tables import is_table, read_table

__all__ = [
    "READERS",
    "ColumnNames",
    "RdfTerms",
    "Sparql",
    "TableOptions",
    "is_endpoint",
    "is_table",
    "looks_like_header",
    "read_file",
    "read_sparql",
    "read_table",
    "read_triples",
    "register_reader",
    "told",
]
