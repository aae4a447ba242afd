"""`StreamedGraph`: a `KnowledgeGraph` whose training triples stay on disk until somebody asks for all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import DataError
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Source, Split, Triples, Vocabulary
from staypositive.graph.on_disk.folder import read_manifest, require_kernels
from staypositive.graph.on_disk.storage import StoredArray
from staypositive.graph.on_disk.vocabulary import DiskVocabulary, NumberVocabulary

PIECE = 1 << 22
"""Triples checked at once."""


class StreamedSplit(Split):
    """Facts in a file. `stored` reads pieces of it; `triples` is all of them in memory, 24 bytes each."""

    def __init__(self, path: Path) -> None:
        object.__setattr__(self, "stored", StoredArray(path))

    stored: StoredArray

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def triples(self) -> Triples:
        return self.stored.read(0, len(self)).astype(np.int64)

    def first(self, most: int) -> Triples:
        return self.stored.read(0, most).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class StreamedGraph(KnowledgeGraph):
    """A graph in a folder that `ingest` made; valid and test, which are small, lie in memory."""

    folder: Path = Path()
    sha256: str = ""
    """The hash of all files' hashes."""
    about: dict[str, int] = field(default_factory=dict)
    """Copies dropped, and entities and relations that no triple has."""

    def __post_init__(self) -> None:
        """Ids were made or checked when the graph was ingested."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what the graph says; known beforehand unless its facts were changed since."""
        return self.sha256 if isinstance(self.train, StreamedSplit) else super().fingerprint


def open_streamed(folder: str | os.PathLike[str]) -> StreamedGraph:
    """Open the folder of a streamed graph; every file is checked against its hash."""
    require_kernels()
    folder = Path(folder).resolve()
    manifest = read_manifest(folder)
    try:
        graph = _opened(folder, manifest)
        for name in SPLITS:
            _require_ids(graph, StoredArray(folder / f"{name}.npy"), name)
    except DataError:
        raise
    except Exception as error:  # hashes say that it is whole, not that it was ever a graph
        raise DataError(f"not a readable streamed graph: {type(error).__name__}: {error}", folder) from None
    return graph


def _opened(folder: Path, manifest: dict[str, Any]) -> StreamedGraph:
    counts = manifest["counts"]

    def vocabulary(kind: str, count: int) -> Vocabulary:
        return NumberVocabulary(kind, count) if manifest["labels"] == "numbers" else DiskVocabulary(kind, folder)

    valid, test = (Split(np.load(folder / f"{name}.npy", allow_pickle=False)) for name in ("valid", "test"))
    return StreamedGraph(
        manifest["name"],
        vocabulary("entity", counts["entities"]),
        vocabulary("relation", counts["relations"]),
        StreamedSplit(folder / "train.npy"),
        valid,
        test,
        tuple(Source(**source) for source in manifest["sources"]),
        folder=folder,
        sha256=manifest["fingerprint"],
        about={name: counts[name] for name in ("copies_dropped", "unused_entities", "unused_relations")},
    )


def _require_ids(graph: StreamedGraph, stored: StoredArray, split: str) -> None:
    """Refuse triples that are no ids of the graph's labels, read piece by piece."""
    if stored.dtype.kind != "i" or stored.shape[1:] != (3,):
        raise DataError(f"{split} is not a table of ids", graph.folder)
    sizes = np.array([len(graph.entities), len(graph.relations), len(graph.entities)])
    for first in range(0, len(stored), PIECE):
        piece = stored.read(first, first + PIECE)
        if (piece.min(0) < 0).any() or (piece.max(0) >= sizes).any():
            raise DataError(f"{split} has ids that no label has", graph.folder)
