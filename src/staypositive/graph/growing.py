"""Adding facts to a graph: entities that it did not have come after those that it has, so that ids stay."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from staypositive.errors import UnknownLabelError
from staypositive.graph.knowledge_graph import KnowledgeGraph, Split, Vocabulary
from staypositive.graph.labelled import LabelledTriples, require_facts
from staypositive.graph.readers import is_table, read_table, read_triples

Facts = str | os.PathLike[str] | LabelledTriples | Iterable[Any]
"""A file of triples, what `read_triples` read from one, or triples by label: a list of them, or a table."""


def add_facts(graph: KnowledgeGraph, facts: Facts, header: bool | None = None) -> KnowledgeGraph:
    """Return the graph with more training facts; what some split states already is passed over.

    Relations must be known: an unknown one is an error, which names the line of a file.
    """
    if isinstance(facts, str | os.PathLike):
        facts = read_triples(facts, header)
    elif not isinstance(facts, LabelledTriples):
        facts = read_table(facts if is_table(facts) else list(facts), "facts given by label")
    stated = facts
    require_facts(stated)
    heads, relations, tails = stated.columns
    unknown = next((row for row, relation in enumerate(relations) if relation not in graph.relations), None)
    if unknown is not None:
        error = UnknownLabelError("relation", relations[unknown], graph.relations.nearest(relations[unknown]))
        raise stated.error(f"{error} New entities need known relations; training adds new ones", unknown)
    entities = Vocabulary("entity", dict.fromkeys([*graph.entities, *heads, *tails]))
    triples = np.column_stack([entities.ids(heads), graph.relations.ids(relations), entities.ids(tails)])
    grown = dataclasses.replace(graph, entities=entities, sources=(*graph.sources, stated.source))
    keys = grown.keys(triples)
    _, first = np.unique(keys, return_index=True)
    kept = np.sort(first[~np.isin(keys[first], grown.keys(graph.facts()))])
    known, weights = graph.train.facts, None
    old, new = graph.train.fact_weights, stated.weights
    if old is not None or new is not None:  # where one side has none, its facts weigh 1
        old = np.ones(len(known), np.float32) if old is None else old
        weights = np.concatenate([old, np.ones(len(kept), np.float32) if new is None else new[kept]])
    train = Split(np.concatenate([known, triples[kept]]), weights=weights)
    added = len(entities) - len(graph.entities)
    note = f"{len(kept):,} facts and {added:,} entities were added from {stated.source.name}"
    return dataclasses.replace(grown, train=train, notes=(*graph.notes, note))
