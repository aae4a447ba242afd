"""What facts say of a pair of entities and a relation, without a model: counts of answers, roles and links."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from staypositive.probability.null_distribution import Floats, Ints

CERTAIN = 12.0  # the largest log-odds that counts of facts give
BINS = 16  # of numbers of answers: 0, 1, 2, 3, and then doublings
DENSE = 2**24  # entries up to which a table of counts is kept dense


class Counted(NamedTuple):
    """Distinct keys, sorted, and how often each occurs."""

    keys: Ints
    counts: Ints

    @classmethod
    def of(cls, keys: Ints) -> Counted:
        return cls(*np.unique(keys, return_counts=True))

    def places(self, keys: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return where each key stands, and whether it occurs at all."""
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return places, self.keys[places] == keys

    def __call__(self, keys: Ints) -> Ints:
        places, found = self.places(keys)
        return np.where(found, self.counts[places], 0)


class Together:
    """Things that have items, and how often one item comes with another: relations of a pair, roles of an entity."""

    def __init__(self, things: Ints, items: Ints, n_things: int, n_items: int) -> None:
        from scipy import sparse

        rows = np.unique(things * n_items + items)
        ones, where = np.ones(len(rows), dtype=np.float32), (rows // n_items, rows % n_items)
        self.table: Any = sparse.csr_matrix((ones, where), shape=(n_things, n_items))
        self.sizes = np.asarray(self.table.sum(0), dtype=np.float64).ravel()
        self.rates = (self.sizes + 0.5) / (n_things + 1)
        both = (self.table.T @ self.table).tocsr()
        self.both = both.toarray() if n_items**2 <= DENSE else both

    def log_odds(self, items: Ints, targets: Ints, left_out: Ints | int = 0) -> Floats:
        """Return ln of the odds that a thing with an item has the target too, drawn a little to the target's rate.

        `left_out` things that have both count as having the item alone.
        """
        both, rates = np.asarray(self.both[items, targets], dtype=np.float64).ravel() - left_out, self.rates[targets]
        return np.log((both + rates) / (self.sizes[items] - both + 1 - rates))

    def best(self, things: Ints, targets: Ints, left_out: Ints) -> Floats:
        """Return the highest log-odds that any other item of each thing gives for a target; −CERTAIN for none."""
        owners, places = _ranges(self.table.indptr[things], np.diff(self.table.indptr)[things])
        items = self.table.indices[places].astype(np.int64)
        others = items != targets[owners]
        owners, items = owners[others], items[others]
        found = np.full(len(things), -CERTAIN)
        if len(owners):
            values = self.log_odds(items, targets[owners], left_out[owners]).clip(0.001 - CERTAIN, CERTAIN)
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            found[owners[starts]] = np.maximum.reduceat(values, starts)
        return found

    def things_with(self, target: int, least: float) -> Ints:
        """Return the things of which an item other than the target gives it at least these log-odds."""
        every = np.arange(self.table.shape[1])
        odds = self.log_odds(every, np.full_like(every, target))
        items = np.flatnonzero((odds >= least) & (every != target) & (self.sizes > 0))
        return np.unique(self.table[:, items].nonzero()[0])


class Links:
    """Counts of some facts, shape (n, 3): answers of questions, facts of entities, roles, links between entities."""

    def __init__(self, facts: Ints, n_entities: int, n_relations: int) -> None:
        self.n_entities, self.n_relations = n_entities, n_relations
        heads, relations, tails = np.unique(facts, axis=0).T
        self.per_relation = np.bincount(relations, minlength=n_relations)
        other = heads != tails  # a fact of an entity about itself is one fact of it, and says no more of it by that
        self.degrees = np.bincount(np.concatenate([heads, tails[other]]), minlength=n_entities)
        self._answers = {
            side: Counted.of(relations * n_entities + given) for side, given in (("tail", heads), ("head", tails))
        }
        self._rates = {side: self._more_answers(own) for side, own in self._answers.items()}
        both_ways = np.concatenate([relations, relations[other] + n_relations])
        ends = np.concatenate([heads * n_entities + tails, (tails * n_entities + heads)[other]])
        self._pairs = Counted.of(ends)
        places, _ = self._pairs.places(ends)
        self._links = Together(places, both_ways, len(self._pairs.keys), 2 * n_relations)
        played = np.concatenate([relations[other], relations[other] + n_relations])
        self._roles = Together(np.concatenate([heads[other], tails[other]]), played, n_entities, 2 * n_relations)

    def answers(self, relations: Ints, given: Ints, side: str) -> Ints:
        """Return how many answers the question for a side has that gives the other side's entity."""
        return self._answers[side](relations * self.n_entities + given)

    def more_answers(self, relations: Ints, answers: Ints, side: str) -> Floats:
        """Return ln of how many more facts there are per question with so many answers already (Good 1953).

        Taking one of k + 1 answers away leaves a question with k: facts of the first kind per question of the second.
        """
        return self._rates[side][relations, _bin_of(answers)]

    def linked(self, triples: Ints, own: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the best log-odds that other facts of both entities give, and where there are such facts."""
        heads, relations, tails = triples.T
        places, linked = self._pairs.places(heads * self.n_entities + tails)
        found = np.full(len(triples), -CERTAIN)
        found[linked] = self._links.best(places[linked], relations[linked], own[linked])
        return found, found > -CERTAIN

    def neighbours(self, entities: Ints) -> tuple[Ints, Ints]:
        """Return the entities that facts link with each of some, with the places of those in `entities`."""
        first, last = (np.searchsorted(self._pairs.keys, (entities + i) * self.n_entities) for i in (0, 1))
        owners, places = _ranges(first, last - first)
        return owners, self._pairs.keys[places] % self.n_entities

    def likely_pairs(self, relation: int, least: float) -> tuple[Ints, Ints]:
        """Return heads and tails of the pairs whose other facts give a relation at least these log-odds."""
        keys = self._pairs.keys[self._links.things_with(relation, least)]
        return keys // self.n_entities, keys % self.n_entities

    def fitting(self, relations: Ints, entities: Ints, side: str, own: Ints) -> Floats:
        """Return the best log-odds that an entity's other roles give for being on a side of a relation."""
        return self._roles.best(entities, relations + (self.n_relations if side == "tail" else 0), own)

    def _more_answers(self, questions: Counted) -> Floats:
        relations = questions.keys // self.n_entities

        def count(answers: Ints, weights: Ints | None = None) -> Floats:
            found = np.bincount(relations * BINS + _bin_of(answers), weights, self.n_relations * BINS)
            return np.asarray(found.reshape(-1, BINS), dtype=np.float64)

        more, asked = count(questions.counts - 1, questions.counts), count(questions.counts)
        asked[:, 0] = self.n_entities - asked.sum(1)
        return np.asarray(np.log((more + 0.5) / (asked + 1)))


def _ranges(first: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the numbers from each `first` on, as many as its count, with the place of their range."""
    owners = np.repeat(np.arange(len(first)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owners, first[owners] + within


def _bin_of(answers: Ints) -> Ints:
    doublings = 2 + np.log2(np.maximum(answers, 1)).astype(np.int64)
    return np.where(answers < 4, answers, doublings).clip(max=BINS - 1)
