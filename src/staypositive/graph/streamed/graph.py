"""`StreamedGraph`: a `KnowledgeGraph` whose training triples stay on disk until somebody asks for all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from staypositive.graph.knowledge_graph import KnowledgeGraph, Source, Split, Triples, Vocabulary
from staypositive.graph.streamed.arrays import StoredArray
from staypositive.graph.streamed.folder import read_manifest, require_kernels
from staypositive.graph.streamed.vocabulary import DiskVocabulary, NumberVocabulary


class StreamedSplit(Split):
    """Facts in a file. `stored` reads pieces of it; `triples` is all of them in memory, 24 bytes each."""

    def __init__(self, path: Path) -> None:
        object.__setattr__(self, "stored", StoredArray(path))

    stored: StoredArray

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def triples(self) -> Triples:
        """All triples, in memory."""
        return self.stored.read(0, len(self)).astype(np.int64)

    def first(self, most: int) -> Triples:
        """Return the first triples, at most so many."""
        return self.stored.read(0, most).astype(np.int64)


@dataclass(frozen=True, eq=False)
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
