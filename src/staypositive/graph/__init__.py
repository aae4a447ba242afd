"""Graphs: reading, checking, cleaning, splitting, and the catalogue of named datasets."""

from staypositive.graph.catalogue import CATALOGUE, Dataset, find_dataset
from staypositive.graph.encoded import write_encoded
from staypositive.graph.folders import read_folder, write_folder
from staypositive.graph.knowledge_graph import (
    SPLITS,
    KnowledgeGraph,
    Source,
    Split,
    Triples,
    Vocabulary,
    triple_keys,
)
from staypositive.graph.loading import Facts, add_facts, load_graph
from staypositive.graph.on_disk import ingest, parse_size
from staypositive.graph.on_disk.graph import StreamedGraph, StreamedSplit, open_streamed
from staypositive.graph.quality import GraphReport, drop_unseen, inspect_graph
from staypositive.graph.readers import READERS, RdfTerms, Sparql, read_triples, register_reader
from staypositive.graph.readers.columns import log as columns_log
from staypositive.graph.splitting import split_triples

__all__ = [
    "CATALOGUE", "READERS", "SPLITS", "Dataset", "Facts", "GraphReport", "KnowledgeGraph", "RdfTerms", "Source",
    "Sparql", "Split", "StreamedGraph", "StreamedSplit", "Triples", "Vocabulary", "add_facts", "columns_log",
    "drop_unseen", "find_dataset", "ingest", "inspect_graph", "load_graph", "open_streamed", "parse_size",
    "read_folder", "read_triples", "register_reader", "split_triples", "triple_keys", "write_encoded", "write_folder",
]  # fmt: skip
