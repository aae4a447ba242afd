"""Export: tables of predictions, graphs, embeddings and scorers, in formats that other tools read."""

from staypositive.interop.embeddings import EMBEDDING_FORMATS, export_embeddings
from staypositive.interop.graphs import GRAPH_FORMATS, export_graph
from staypositive.interop.ntriples import BASE as IRI_BASE
from staypositive.interop.onnx import export_onnx
from staypositive.interop.tables import TABLE_WRITERS, require_table_path, write_table
from staypositive.interop.trackers import Tracker, make_tracker

__all__ = [
    "EMBEDDING_FORMATS",
    "GRAPH_FORMATS",
    "IRI_BASE",
    "TABLE_WRITERS",
    "Tracker",
    "export_embeddings",
    "export_graph",
    "export_onnx",
    "make_tracker",
    "require_table_path",
    "write_table",
]
