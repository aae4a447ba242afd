"""Graphs as folders of splits that `load_graph` reads again, or as one file of arrays."""

from __future__ import annotations

import os
from pathlib import Path

from staypositive.errors import InputError, SettingError
from staypositive.files import write_atomic
from staypositive.graph import SPLITS, KnowledgeGraph, Split, Triples, write_folder
from staypositive.graph.encoded import write_encoded
from staypositive.interop.ntriples import BASE, statement
from staypositive.interop.tables import to_parquet

GRAPH_FORMATS = ("tsv", "parquet", "nt", "npz")


def export_graph(graph: KnowledgeGraph, out: str | os.PathLike[str], format: str = "tsv", base: str = BASE) -> Path:
    """Write a graph; `tsv`, `parquet` and `nt` make a folder of train, valid and test, `npz` makes one file.

    N-Triples keep false triples in files of their own (`valid_negatives.nt`), and have no confidence.
    """
    out = Path(out)
    if format not in GRAPH_FORMATS:
        raise SettingError(f"a graph is exported as {', '.join(GRAPH_FORMATS)}, got {format!r}")
    if format == "tsv":
        return write_folder(graph, out)
    if format == "npz":
        write_encoded(out, graph)
        return out
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give a new folder, so that nothing is lost or mixed")
    for name in SPLITS:
        split = graph.split(name)
        if format == "parquet" and len(split):
            _write_parquet(graph, split, out / f"{name}.parquet")
        elif format == "nt":
            _write_nt(graph, split.facts, out / f"{name}.nt", base)
            _write_nt(graph, split.falsehoods, out / f"{name}_negatives.nt", base)
    return out


def labels_of(graph: KnowledgeGraph, triples: Triples) -> list[tuple[str, str, str]]:
    """Return triples by label."""
    entities, relations = graph.entities, graph.relations
    return [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()]


def _write_nt(graph: KnowledgeGraph, triples: Triples, path: Path, base: str) -> None:
    if len(triples):
        write_atomic(path, "".join(statement(labels, base) for labels in labels_of(graph, triples)))


def _write_parquet(graph: KnowledgeGraph, split: Split, path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(labels_of(graph, split.triples), columns=["head", "relation", "tail"])
    if split.labels is not None:
        table["label"] = split.labels
    if split.weights is not None:
        table["confidence"] = split.weights
    write_atomic(path, to_parquet(table))
