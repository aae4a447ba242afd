"""Writing a graph as a folder that every reader of the field understands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Split
from staypositive.graph.readers import looks_like_header


def write_folder(graph: KnowledgeGraph, folder: str | os.PathLike[str]) -> Path:
    """Write train.txt, valid.txt and test.txt; a split with labels gets a fourth column of 1 and -1.

    A split with weights gets a column called confidence, and a header that says so.
    """
    for label in (*graph.entities, *graph.relations):
        if any(mark in label for mark in "\t\n\0") or label.endswith("\r"):
            raise InputError(
                f"the label {label!r} holds a tab or a line end (or NUL), which this format cannot carry"
            )
    empty = [name for name in SPLITS if len(graph.split(name)) == 0]
    if empty:
        raise InputError(f"{graph.name} has no triples in {' and '.join(empty)}; an empty file would not be readable")
    folder = Path(folder)
    others = sorted(path.name for path in folder.glob("*"))
    if others:
        raise InputError(
            f"{folder} is not empty ({others[0]}, ...); give a new folder, so that nothing is lost or mixed"
        )
    for name in SPLITS:
        rows = list(_rows(graph, graph.split(name)))
        text = "".join(rows)
        mark = "\ufeff" if text.startswith("\ufeff") else ""  # readers take the first one for a byte order mark
        write_atomic(folder / f"{name}.txt", mark + text)
    return folder


def _rows(graph: KnowledgeGraph, split: Split) -> Iterator[str]:
    """Yield the lines of a split; a header where its columns, or what its first triple looks like, need one."""
    stated = {"label": split.labels, "confidence": split.weights}
    extra = {name: values.tolist() for name, values in stated.items() if values is not None}
    if split.weights is not None or (len(split) and looks_like_header(_labels(graph, split.triples[0].tolist()))):
        yield "\t".join(["head", "relation", "tail", *extra]) + "\n"
    for triple, *cells in zip(split.triples.tolist(), *extra.values(), strict=True):
        yield "\t".join([*_labels(graph, triple), *map(str, cells)]) + "\n"


def _labels(graph: KnowledgeGraph, triple: list[int]) -> list[str]:
    head, relation, tail = triple
    return [graph.entities[head], graph.relations[relation], graph.entities[tail]]
