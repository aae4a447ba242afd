"""Graphs of labels that a test writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from staypositive.graph import KnowledgeGraph, Source
from staypositive.graph.knowledge_graph import assemble
from staypositive.graph.labelled import Columns, Encoder, LabelledTriples, Place


def labelled(columns: Columns, signs: NDArray[np.int8] | None = None) -> LabelledTriples:
    """Return triples as a reader gives them."""
    encoder = Encoder(Place(unit="row"))
    encoder.add(columns, range(1, len(columns[0]) + 1), signs)
    return encoder.finish("facts given by label")


def encode(
    name: str, columns: Mapping[str, Columns], labels: Mapping[str, NDArray[np.int8] | None],
    sources: Sequence[Source] = (),
) -> KnowledgeGraph:  # fmt: skip
    """Return a graph of some splits' columns, and of their labels ±1 where they have any."""
    parts = {split: labelled(part, labels.get(split)) for split, part in columns.items() if len(part[0])}
    return assemble(name, parts, sources)
