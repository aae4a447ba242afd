"""Adding facts to a graph: entities that it did not have come after those that it has, so that ids stay."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError, UnknownLabelError
from staypositive.graph.knowledge_graph import KnowledgeGraph, Split, Vocabulary
from staypositive.graph.labelled import LabelledTriples, from_columns
from staypositive.graph.readers import read_triples, require_facts

Facts = str | os.PathLike[str] | LabelledTriples | Iterable[tuple[str, str, str]]
"""A file of triples, what `read_triples` read from one, or triples by label."""


def add_facts(graph: KnowledgeGraph, facts: Facts, header: bool | None = None) -> KnowledgeGraph:
    """Return the graph with more training facts; what some split states already is passed over.

    Relations must be known: an unknown one is an error, which names the line of a file.
    """
    if isinstance(facts, str | os.PathLike):
        facts = read_triples(facts, header)
    stated = facts if isinstance(facts, LabelledTriples) else _labelled(facts)
    require_facts(stated)
    heads, relations, tails = stated.columns
    for row, relation in enumerate(relations):
        if relation not in graph.relations:
            error = UnknownLabelError("relation", relation, graph.relations.nearest(relation))
            said = f"{error} New entities need known relations; training adds new ones"
            raise DataError(said) if stated.place.path is None else stated.error(said, row)
    entities = Vocabulary("entity", dict.fromkeys([*graph.entities, *heads, *tails]))
    triples = np.column_stack([entities.ids(heads), graph.relations.ids(relations), entities.ids(tails)])
    grown = dataclasses.replace(graph, entities=entities, sources=(*graph.sources, stated.source))
    keys = grown.keys(triples)
    _, first = np.unique(keys, return_index=True)
    kept = np.sort(first[~np.isin(keys[first], grown.keys(graph.facts()))])
    added = len(entities) - len(graph.entities)
    return dataclasses.replace(
        grown,
        train=Split(np.concatenate([graph.train.facts, triples[kept]]), weights=_weights(graph, stated, kept)),
        notes=(*graph.notes, f"{len(kept):,} facts and {added:,} entities were added from {stated.source.name}"),
    )


def _labelled(facts: Iterable[tuple[str, str, str]]) -> LabelledTriples:
    rows = list(facts)
    if not rows:
        raise InputError("there are no facts to add; give triples (head, relation, tail) by label, or a file")
    if any(len(row) != 3 or not all(isinstance(label, str) and label.strip() for label in row) for row in rows):
        raise InputError("facts are triples of labels: (head, relation, tail), none of them blank")
    heads, relations, tails = zip(*rows, strict=True)
    return from_columns((heads, relations, tails))


def _weights(graph: KnowledgeGraph, stated: LabelledTriples, kept: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """Return the weights of old facts and new; where one side has none, its facts weigh 1."""
    old, new = graph.train.fact_weights, stated.weights
    if old is None and new is None:
        return None
    old = np.ones(len(graph.train.facts), dtype=np.float32) if old is None else old
    return np.concatenate([old, np.ones(len(kept), dtype=np.float32) if new is None else new[kept]])
