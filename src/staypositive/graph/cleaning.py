"""The paper's cleaning rule, which turns WN18RR into WN18AM and FB15k-237 into FB15k-237AM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.knowledge_graph import KnowledgeGraph, Split, Vocabulary


def drop_unseen(graph: KnowledgeGraph, name: str | None = None) -> KnowledgeGraph:
    """Drop each valid and test triple with an entity or relation that no training triple has.

    What a model says of an unseen entity is a function of its initialisation alone (section 4 of the paper). The
    vocabularies shrink to what training has, in the old order.
    """
    seen_entities, seen_relations = graph.seen_entities, graph.seen_relations
    new_entity, new_relation = _renumber(seen_entities), _renumber(seen_relations)

    def cleaned(split: Split) -> Split:
        kept = split.take(~graph.has_unseen(split.triples))
        old = kept.triples
        return Split(
            np.column_stack([new_entity[old[:, 0]], new_relation[old[:, 1]], new_entity[old[:, 2]]]),
            kept.labels,
            kept.weights,
        )

    dropped = sum(int(graph.has_unseen(split.triples).sum()) for split in (graph.valid, graph.test))
    return replace(
        graph,
        name=name or graph.name,
        entities=_kept(graph.entities, seen_entities),
        relations=_kept(graph.relations, seen_relations),
        train=cleaned(graph.train),
        valid=cleaned(graph.valid),
        test=cleaned(graph.test),
        notes=(
            *graph.notes,
            *([f"{dropped} valid and test triples with unseen entities dropped"] if dropped else []),
        ),
    )


def _renumber(keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.cumsum(keep, dtype=np.int64) - 1


def _kept(vocabulary: Vocabulary, keep: NDArray[np.bool_]) -> Vocabulary:
    return Vocabulary(vocabulary.kind, (label for label, kept in zip(vocabulary, keep, strict=True) if kept))
