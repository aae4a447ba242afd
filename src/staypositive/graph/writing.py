"""Writing a graph as a folder that every reader of the field understands."""

from __future__ import annotations

import os
from pathlib import Path

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph


def write_folder(graph: KnowledgeGraph, folder: str | os.PathLike[str]) -> Path:
    """Write train.txt, valid.txt and test.txt; a split with labels gets a fourth column of 1 and -1."""
    for label in (*graph.entities, *graph.relations):
        if "\t" in label or "\n" in label or label.endswith("\r"):
            raise InputError(f"the label {label!r} holds a tab or a line end, which this format cannot carry")
    empty = [name for name in SPLITS if len(graph.split(name)) == 0]
    if empty:
        raise InputError(f"{graph.name} has no triples in {' and '.join(empty)}; an empty file would not be readable")
    folder = Path(folder)
    for name in SPLITS:
        split = graph.split(name)
        rows = []
        for (head, relation, tail), sign in zip(split.triples.tolist(), split.signs.tolist(), strict=True):
            cells = [graph.entities[head], graph.relations[relation], graph.entities[tail]]
            rows.append("\t".join(cells if split.labels is None else [*cells, str(sign)]) + "\n")
        text = "".join(rows)
        mark = "\ufeff" if text.startswith("\ufeff") else ""  # readers take the first one for a byte order mark
        write_atomic(folder / f"{name}.txt", mark + text)
    return folder
