"""`StreamedGraph`: a `KnowledgeGraph` whose training triples stay on disk until somebody asks for all of them.

Its folder is made beside its place and moved there when whole; a manifest names every file with its hash.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import DataError, InputError, RunError, import_optional
from staypositive.files import sha256_bytes, to_json
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Source, Split, Triples, Vocabulary
from staypositive.graph.on_disk.storage import StoredArray
from staypositive.sealed_folder import FolderKind, entry_of, fault
from staypositive.typed import fits

STREAMED = FolderKind(
    name="streamed graph",
    manifest="streamed.json",
    format=1,
    how_to_make="`staypositive ingest` makes one",
    more=r".+",
    most=2**28,  # it names all that was read
)
MANIFEST = STREAMED.manifest
SHAPE = {
    "name": str, "fingerprint": str, "labels": str, "counts": dict[str, int], "sources": Sequence[dict[str, Any]],
}  # fmt: skip
"""What the manifest holds beside format, files and its own hash."""
MARK = "ingesting"  # a file that says a folder is of an ingestion not yet done, and may be cleared by the next


@contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """Give a folder to work in, which takes its final name when all went well."""
    work = out.with_name(f"{out.name}.part")
    for path in (out, work):
        if path.is_symlink():
            raise InputError(f"{path} is a link, and linked folders are neither written to nor replaced; remove it")
    if STREAMED.is_in(out):
        if not force:
            raise InputError(f"{out} already holds a streamed graph; use --force to replace it, or another folder")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} holds other files; choose another folder")
    if work.exists() and not (work / MARK).exists():
        raise InputError(f"{work} is in the way, and is not of an ingestion cut short; move it")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / MARK).touch()
    try:
        yield work
        (work / MARK).unlink()
        if out.exists():
            shutil.rmtree(out)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def write_manifest(folder: Path, about: dict[str, Any], sources: Sequence[Source]) -> None:
    """Name every file with its size and hash; the fingerprint is a hash of those, whatever the shards were."""
    files = {path.name: entry_of(path) for path in sorted(folder.iterdir()) if path.name != MARK}
    fingerprint = sha256_bytes(to_json({name: entry["sha256"] for name, entry in files.items()}))
    stated = {"fingerprint": fingerprint, "sources": [vars(source) for source in sources]}
    STREAMED.seal(folder, files, about | stated)


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        about = STREAMED.read_manifest(folder)
        if odd := next((name for name, kind in SHAPE.items() if not fits(about.get(name), kind)), None):
            raise RunError(f"{folder / MANIFEST} is damaged: {odd} is not of its kind")
        for name, entry in about["files"].items():
            if wrong := fault(folder / name, entry):
                raise RunError(f"{folder / name} {wrong}; ingest again")
    except RunError as error:
        raise DataError(str(error)) from None
    return about


PIECE = 1 << 22  # triples checked at once


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
    """A graph in a folder that `ingest` made; valid and test, which are small, lie in memory.

    `sha256` is the hash of all files' hashes; `about` counts copies dropped, and entities and relations of no triple.
    """

    folder: Path = Path()
    sha256: str = ""
    about: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Ids were made or checked when the graph was ingested."""

    @property
    def fingerprint(self) -> str:
        return self.sha256 if isinstance(self.train, StreamedSplit) else self.contents_sha256()


def require_numba() -> None:
    import_optional("numba", "a streamed graph", "fast")  # which hashes and encodes labels


def open_streamed(folder: str | os.PathLike[str]) -> StreamedGraph:
    """Open the folder of a streamed graph; every file is checked against its hash."""
    require_numba()
    from staypositive.graph.on_disk.vocabulary import DiskVocabulary, NumberVocabulary

    folder = Path(folder).resolve()
    manifest = read_manifest(folder)
    counts = manifest["counts"]

    def vocabulary(kind: str, count: int) -> Vocabulary:
        return NumberVocabulary(kind, count) if manifest["labels"] == "numbers" else DiskVocabulary(kind, folder)

    try:
        valid, test = (Split(np.load(folder / f"{name}.npy", allow_pickle=False)) for name in ("valid", "test"))
        vocabularies = vocabulary("entity", counts["entities"]), vocabulary("relation", counts["relations"])
        sources = tuple(Source(**source) for source in manifest["sources"])
        about = {name: counts[name] for name in ("copies_dropped", "unused_entities", "unused_relations")}
        train, sha256 = StreamedSplit(folder / "train.npy"), manifest["fingerprint"]
        graph = StreamedGraph(
            manifest["name"], *vocabularies, train, valid, test, sources, folder=folder, sha256=sha256, about=about
        )
        for name in SPLITS:
            _require_ids(graph, StoredArray(folder / f"{name}.npy"), name)
    except DataError:
        raise
    except Exception as error:  # hashes say that it is whole, not that it was ever a graph
        raise DataError(f"not a readable streamed graph: {type(error).__name__}: {error}", folder) from None
    return graph


def _require_ids(graph: StreamedGraph, stored: StoredArray, split: str) -> None:
    if stored.dtype.kind != "i" or stored.shape[1:] != (3,):
        raise DataError(f"{split} is not a table of ids", graph.folder)
    sizes = np.array([len(graph.entities), len(graph.relations), len(graph.entities)])
    for first in range(0, len(stored), PIECE):
        piece = stored.read(first, first + PIECE)
        if (piece.min(0) < 0).any() or (piece.max(0) >= sizes).any():
            raise DataError(f"{split} has ids that no label has", graph.folder)
