"""Graphs larger than memory: shards become ids and labels on disk, from which training streams."""

from staypositive.graph.streamed.folder import MANIFEST
from staypositive.graph.streamed.graph import StreamedGraph, StreamedSplit, open_streamed
from staypositive.graph.streamed.ingest import ingest, parse_size
from staypositive.graph.streamed.vocabulary import DiskVocabulary, NumberVocabulary

__all__ = [
    "MANIFEST",
    "DiskVocabulary",
    "NumberVocabulary",
    "StreamedGraph",
    "StreamedSplit",
    "ingest",
    "open_streamed",
    "parse_size",
]
