"""Looking up what a graph states about an entity, and labels by what a person types of them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from staypositive.graph import SPLITS, KnowledgeGraph
from staypositive.inference.ordering import Ints

MOST_LOOKED_AT = 5000  # matches that are ranked: a short text is in too many labels to rank them all at each key
_PLACES = (r"\n", r"(?<=[^\w\n])", r"(?<=\w)")
"""Where the text stands in a label, best first: at its beginning, at that of a word, inside a word."""


@dataclass(frozen=True)
class Neighbourhood:
    """An entity, some of its neighbours, the facts among them, by ids, and how many neighbours were left out."""

    entities: Ints
    facts: Ints
    left_out: int


class FactIndex:
    """The facts of all splits, looked up by entity or relation in the time that the answer takes."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.facts = graph.facts()
        self.splits = np.repeat(np.arange(len(SPLITS)), [len(graph.split(name).facts) for name in SPLITS])
        rows, loops = np.arange(len(self.facts)), self.facts[:, 0] == self.facts[:, 2]
        owners = np.concatenate([self.facts[:, 0], self.facts[~loops, 2]])
        self._by_entity, starts = _grouped(np.concatenate([rows, rows[~loops]]), owners, len(graph.entities))
        self._entity_starts, self.degrees = starts, np.diff(starts)
        self._by_relation, self._relation_starts = _grouped(rows, self.facts[:, 1], len(graph.relations))

    def rows_of(self, entity: int) -> Ints:
        """Return the rows of `facts` that have the entity as head or tail, ascending."""
        return np.sort(self._by_entity[self._entity_starts[entity] : self._entity_starts[entity + 1]])

    def rows_of_relation(self, relation: int) -> Ints:
        return self._by_relation[self._relation_starts[relation] : self._relation_starts[relation + 1]]

    def neighbourhood(self, entity: int, most: int) -> Neighbourhood:
        """Return the entity, its `most` best-connected neighbours and the facts among them.

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


def _grouped(rows: Ints, keys: Ints, n_keys: int) -> tuple[Ints, Ints]:
    """Return rows sorted by key, and where each key's begin, shape (keys + 1,)."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n_keys))])
    return rows[np.argsort(keys, kind="stable")], starts


def fold(text: str) -> str:
    """Return a text without case and accents.

    >>> fold("Åland ISLANDS")
    'aland islands'
    """
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return bare.casefold().replace("\n", " ")


class LabelSearch:
    """Labels in one long text, so that a search is one scan, with weights that break ties (the largest first)."""

    def __init__(self, labels: Sequence[str], weights: Sequence[float] | None = None) -> None:
        folded = [fold(label) for label in labels]
        self._text = "\n" + "\n".join(folded) + "\n"
        self._starts = list(accumulate((len(label) + 1 for label in folded), initial=1))[:-1]
        self._lengths = [len(label) for label in folded]
        self._weights = [0.0] * len(folded) if weights is None else list(weights)

    def find(self, typed: str, most: int = 10) -> list[int]:
        """Return ids of labels that hold the text: equal ones first, then those that begin so, then a word that does.

        >>> LabelSearch(["New York", "York", "Yorkshire", "Cork"]).find("york")
        [1, 2, 0]
        """
        wanted = fold(typed).strip()
        if not wanted:
            return []
        found: dict[int, tuple[int, float, int]] = {}
        for kind, before in enumerate(_PLACES):
            for match in re.finditer(before + re.escape(wanted), self._text):
                place = bisect_right(self._starts, match.end() - len(wanted)) - 1
                equal = kind == 0 and self._lengths[place] == len(wanted)
                found.setdefault(place, (-1 if equal else kind, -self._weights[place], self._lengths[place]))
                if len(found) >= MOST_LOOKED_AT:
                    break
            if len(found) >= most:
                break  # what comes later in a label ranks lower
        return sorted(found, key=found.__getitem__)[:most]
