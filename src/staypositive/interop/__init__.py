"""Export: tables of predictions, graphs, embeddings and scorers, in formats that other tools read."""

from staypositive.interop.exports import (
    FORMATS,
    choose_format,
    export_embeddings,
    export_graph,
    require_table_path,
    write_table,
)
from staypositive.interop.ntriples import BASE
from staypositive.interop.onnx import export_onnx
from staypositive.interop.trackers import Tracker, make_tracker

__all__ = [
    "BASE", "FORMATS", "Tracker", "choose_format", "export_embeddings", "export_graph", "export_onnx", "make_tracker",
    "require_table_path", "write_table",
]  # fmt: skip
