"""Graphs: reading, checking, cleaning, splitting, and the catalogue of named datasets."""

from staypositive.graph.catalogue import CATALOGUE, Dataset, find_dataset
from staypositive.graph.cleaning import drop_unseen
from staypositive.graph.growing import Facts, add_facts
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Source, Split, Triples, Vocabulary
from staypositive.graph.loading import load_graph
from staypositive.graph.on_disk import StreamedGraph, StreamedSplit, ingest, open_streamed, parse_size
from staypositive.graph.quality import GraphReport, inspect_graph
from staypositive.graph.readers import READERS, RdfTerms, Sparql, read_folder, read_triples
from staypositive.graph.readers.columns import log as columns_log
from staypositive.graph.splitting import split_triples
from staypositive.graph.writing import write_folder

__all__ = [
    "CATALOGUE",
    "READERS",
    "SPLITS",
    "Dataset",
    "Facts",
    "GraphReport",
    "KnowledgeGraph",
    "RdfTerms",
    "Source",
    "Sparql",
    "Split",
    "StreamedGraph",
    "StreamedSplit",
    "Triples",
    "Vocabulary",
    "add_facts",
    "columns_log",
    "drop_unseen",
    "find_dataset",
    "ingest",
    "inspect_graph",
    "load_graph",
    "open_streamed",
    "parse_size",
    "read_folder",
    "read_triples",
    "split_triples",
    "write_folder",
]
