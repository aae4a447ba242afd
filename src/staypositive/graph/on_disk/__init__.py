"""Graphs larger than memory: shards become ids and labels on disk, from which training streams."""

from staypositive.graph.on_disk.folder import MANIFEST
from staypositive.graph.on_disk.graph import StreamedGraph, StreamedSplit, open_streamed
from staypositive.graph.on_disk.ingest import ingest, parse_size
from staypositive.graph.on_disk.storage import Progress, StoredArray, silent
from staypositive.graph.on_disk.vocabulary import DiskVocabulary, NumberVocabulary

__all__ = [
    "MANIFEST",
    "DiskVocabulary",
    "NumberVocabulary",
    "Progress",
    "StoredArray",
    "StreamedGraph",
    "StreamedSplit",
    "ingest",
    "open_streamed",
    "parse_size",
    "silent",
]
