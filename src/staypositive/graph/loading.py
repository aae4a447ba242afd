"""`load_graph`: a name, a folder or a file becomes a checked, integer `KnowledgeGraph`."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from staypositive.errors import InputError
from staypositive.graph.catalogue import CATALOGUE
from staypositive.graph.encoded import read_encoded
from staypositive.graph.knowledge_graph import KnowledgeGraph
from staypositive.graph.quality import inspect_graph
from staypositive.graph.readers import read_folder, read_triples
from staypositive.graph.splitting import DEFAULT_SPLIT, split_triples

log = logging.getLogger(__name__)


def load_graph(
    source: str | os.PathLike[str],
    *,
    split: Sequence[float] | None = None,
    header: bool | None = None,
    seed: int = 0,
) -> KnowledgeGraph:
    """Load a graph by dataset name (`"geo"`, `"WN18AM"`), from a folder of splits, or from one file.

    A file is triples as text, or a graph that `graph.encoded.write_encoded` wrote as `.npz`.

    `split` (train, valid and test shares, 0.8, 0.1, 0.1 by default) and `seed` apply to one file alone, which is
    split so that train keeps every entity and relation of the facts. `header` says whether files begin with a line
    of column names; by default that is looked at. What is odd about the graph is logged as warnings.
    """
    path = Path(source)
    is_name = isinstance(source, str) and source.casefold() in CATALOGUE
    is_folder = not is_name and str(source) != "" and _is(path, stat.S_ISDIR)
    if split is not None and (is_folder or is_name):
        raise InputError("a split is for a single file; a folder or a named dataset has its own splits")
    if is_name:
        graph = CATALOGUE[str(source).casefold()].load()
    elif is_folder:
        graph = read_folder(path, header=header)
    elif path.suffix == ".npz" and _is(path, stat.S_ISREG):
        graph = read_encoded(path)
    elif _is(path, stat.S_ISREG):
        whole = read_triples(path, header)
        name = path.name.strip(".").split(".")[0]
        graph = split_triples(
            name, whole.columns, whole.signs, DEFAULT_SPLIT if split is None else split, seed, [whole.source]
        )
    else:
        known = ", ".join(dataset.name for dataset in CATALOGUE.values())
        raise InputError(f"{source!s} is neither a file, nor a folder, nor a named dataset ({known})")
    for line in inspect_graph(graph).lines():
        log.warning("%s: %s", graph.name, line)
    return graph


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):  # not there, or no possible path at all
        return False
