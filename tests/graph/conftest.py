"""What the tests of the graph room share: small graphs by hand, their rows as labels, and the real datasets."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from graphs import encode
from staypositive.graph import CATALOGUE, KnowledgeGraph
from staypositive.graph.catalogue import MIRROR_VARIABLE
from staypositive.graph.labelled import Columns

Row = tuple[str, str, str, int]


def _build(
    train: Iterable[str], valid: Iterable[str] = (), test: Iterable[str] = (), name: str = "toy"
) -> KnowledgeGraph:
    columns: dict[str, Columns] = {}
    labels = {}
    for split, rows in (("train", train), ("valid", valid), ("test", test)):
        cells = [row.split() for row in rows]
        columns[split] = ([c[0] for c in cells], [c[1] for c in cells], [c[2] for c in cells])
        if any(len(c) == 4 for c in cells):
            labels[split] = np.array([int(c[3]) for c in cells], dtype=np.int8)
    return encode(name, columns, labels)


def _rows(graph: KnowledgeGraph, split: str) -> list[Row]:
    part = graph.split(split)
    return [
        (graph.entities[head], graph.relations[relation], graph.entities[tail], sign)
        for (head, relation, tail), sign in zip(part.triples.tolist(), part.signs.tolist(), strict=True)
    ]


@pytest.fixture(scope="session")
def build() -> Callable[..., KnowledgeGraph]:
    """Make a graph of rows such as "a r b", or "a r b -1" in a split with labels."""
    return _build


@pytest.fixture(scope="session")
def rows_of() -> Callable[[KnowledgeGraph, str], list[Row]]:
    """Return the rows of a split as labels and sign, in order."""
    return _rows


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with the real datasets; a test that needs them is skipped where there is none."""
    folder = os.environ.get(MIRROR_VARIABLE, "")
    if not folder or not Path(folder).is_dir():
        pytest.skip(f"needs the real datasets: set {MIRROR_VARIABLE} to a folder that has them as NAME/FILE")
    return Path(folder)


@pytest.fixture(scope="session")
def load_named(mirror: Path) -> Callable[[str], KnowledgeGraph]:
    """Load a real dataset from the mirror, once a session."""
    return functools.cache(lambda name: CATALOGUE[name.casefold()].load())
