"""What the graph states about an entity: its facts, and the small graph around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staypositive.graph import SPLITS, KnowledgeGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbourhood:
    """An entity, some of its neighbours, and the facts among them, all by ids."""

    entities: Ints
    facts: Ints
    left_out: int
    """How many neighbours were too many to show."""


class FactIndex:
    """The facts of all splits, looked up by entity in the time that the answer takes."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.facts = graph.facts()
        self.splits = np.repeat(np.arange(len(SPLITS)), [len(graph.split(name).facts) for name in SPLITS])
        loops = self.facts[:, 0] == self.facts[:, 2]
        owners = np.concatenate([self.facts[:, 0], self.facts[~loops, 2]])
        rows = np.concatenate([np.arange(len(self.facts)), np.flatnonzero(~loops)])
        self._rows = rows[np.argsort(owners, kind="stable")]
        self.degrees = np.bincount(owners, minlength=len(graph.entities))
        self._starts = np.concatenate([[0], np.cumsum(self.degrees)])

    def rows_of(self, entity: int) -> Ints:
        """Return the rows of `facts` that have the entity as head or tail, ascending."""
        return np.sort(self._rows[self._starts[entity] : self._starts[entity + 1]])

    def neighbourhood(self, entity: int, most: int) -> Neighbourhood:
        """Return the entity, its `most` best-connected neighbours by relation in turn, and the facts among them.

        Relations take turns, so that one with many facts does not crowd the others out.
        """
        facts = self.facts[self.rows_of(entity)]
        others = np.where(facts[:, 0] == entity, facts[:, 2], facts[:, 0])
        facts, others = facts[others != entity], others[others != entity]
        order = np.lexsort((others, -self.degrees[others], facts[:, 1]))
        _, first, counts = np.unique(facts[order, 1], return_index=True, return_counts=True)
        turn = np.arange(len(order)) - np.repeat(first, counts)
        ranked = others[order][np.argsort(turn, kind="stable")]
        distinct = list(dict.fromkeys(ranked.tolist()))
        chosen = np.array([entity, *distinct[:most]], dtype=np.int64)
        near = np.unique(np.concatenate([self.rows_of(one) for one in chosen.tolist()]))
        inside = np.isin(self.facts[near][:, [0, 2]], chosen).all(1)
        return Neighbourhood(chosen, self.facts[near[inside]], max(0, len(distinct) - most))
