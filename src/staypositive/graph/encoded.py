"""A cache of encoded graphs: parsing text takes longer than reading numbers. No pickle: plain arrays and JSON.

An entry is named by what it was made from (the files' hashes and this format), so it is never out of date. A file
states the graph's fingerprint; an entry that does not have it is made anew, and that is said.
"""

from __future__ import annotations

import io
import json
import logging
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_bytes, write_atomic
from staypositive.graph.knowledge_graph import KnowledgeGraph

log = logging.getLogger(__name__)

FORMAT = 3


def cached(folder: Path, made_from: list[str], make: Callable[[], KnowledgeGraph]) -> KnowledgeGraph:
    """Return the graph made from these hashes, from the cache if it is there; else make and keep it."""
    path = folder / f"{sha256_bytes(json.dumps([FORMAT, *made_from]).encode())[:32]}.npz"
    try:
        return _read(path)
    except Exception as error:  # it is not there, or is not ours: whatever a parser says of strange bytes
        if path.is_file():
            log.warning("%s is damaged and made anew: %s", path, error)
    graph = make()
    with suppress(OSError):  # a cache that cannot be written is no reason to fail
        write_encoded(path, graph)
    return graph


def write_encoded(path: Path, graph: KnowledgeGraph) -> None:
    """Write a graph as one file of arrays, which `load_graph` reads again."""
    about = {
        "name": graph.name, "entities": graph.entities.labels, "relations": graph.relations.labels,
        "sources": [vars(source) for source in graph.sources], "notes": graph.notes,
        "fingerprint": graph.contents_sha256(),  # a streamed graph's own is of its files
    }  # fmt: skip
    stream = io.BytesIO()
    written = np.frombuffer(json.dumps(about).encode("utf-8"), dtype=np.uint8)
    np.savez(stream, allow_pickle=False, about=written, **graph.arrays())
    write_atomic(path, stream.getvalue())


def read_encoded(path: Path) -> KnowledgeGraph:
    try:
        graph = _read(path)
        name: object = graph.name
        if not isinstance(name, str) or not name.strip(". ") or Path(name).name != name:  # runs are kept under it
            raise InputError(f"a graph has a name that is no path, got {name!r:.80}")
        return graph
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except Exception as error:  # zip files, arrays and JSON fail in many ways on bytes that somebody made up
        raise DataError(f"not an encoded graph: {error or type(error).__name__}", path) from error


def _read(path: Path) -> KnowledgeGraph:
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise InputError("its arrays are packed, which ours are not: a few bytes could unpack to any size")
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        about = json.loads(stored["about"].tobytes())
        labels = about["entities"], about["relations"]
        graph = KnowledgeGraph.from_arrays(about["name"], labels, stored, about["sources"], about["notes"])
    if graph.contents_sha256() != about["fingerprint"]:
        raise ValueError("its contents do not have the hash that it states")
    return graph
