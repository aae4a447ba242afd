"""Ranks of true answers among all entities: filtered and raw, under three tie rules, in one pass.

A rank compares the target's score with the others' scores from the same matrix product. Optimistic ranks put the
target before its ties, pessimistic ones after them; the realistic rank, used unless said otherwise, is their mean:
the expected place in a random order of the ties. A scorer that gives everything one score thus earns no credit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError, StayPositiveError

TIES = ("realistic", "optimistic", "pessimistic")
SIDES = ("both", "head", "tail")
DEFAULT_MEMORY = 512 * 2**20
_BYTES_PER_SCORE = 8  # a float32, two masks and their intermediate
_CPU_CACHE = 16 * 2**20

CountChunk = Callable[[Tensor, tuple[Tensor, Tensor], bool], Tensor]
"""From facts, their known answers (position and entity) and whether tails are asked for to `count_ranks`'s counts."""
Progress = Callable[[int], Any]  # told how many queries each chunk had


class AnswerIndex:
    """The distinct answers of each key, in sorted arrays; a key is a number that names a query."""

    def __init__(self, keys: Tensor, answers: Tensor, n_answers: int) -> None:
        self.n_answers = n_answers
        self.pairs = torch.unique(keys * n_answers + answers)  # sorted
        self.keys, self.answers = self.pairs // n_answers, self.pairs % n_answers

    def holds(self, keys: Tensor, answers: Tensor) -> Tensor:
        """Return whether each answer is one of its key's, shape as both broadcast."""
        asked = keys * self.n_answers + answers
        place = torch.searchsorted(self.pairs, asked).clamp(max=len(self.pairs) - 1)
        return torch.eq(self.pairs[place], asked)

    def of(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the answers of many keys, as parallel arrays of position in `keys` and answer.

        >>> index = AnswerIndex(torch.tensor([7, 7, 3]), torch.tensor([1, 2, 9]), 10)
        >>> [part.tolist() for part in index.of(torch.tensor([3, 7, 5]))]
        [[0, 1, 1], [9, 1, 2]]
        """
        first = torch.searchsorted(self.keys, keys)
        counts = torch.searchsorted(self.keys, keys, right=True) - first
        positions = torch.repeat_interleave(counts)
        within = torch.arange(len(positions), device=keys.device) - (counts.cumsum(0) - counts)[positions]
        return positions, self.answers[first[positions] + within]


class KnownAnswers:
    """The answers that some facts, shape (n, 3), give to queries that leave one column of a triple open."""

    def __init__(self, facts: Tensor, column: int, n_entities: int, n_answers: int | None = None) -> None:
        self._given, self._n_entities = {0: (1, 2), 1: (0, 2), 2: (1, 0)}[column], n_entities
        self._index = AnswerIndex(self._keys(facts), facts[:, column], n_answers or n_entities)

    def of(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        return self._index.of(self._keys(queries))

    def holds(self, queries: Tensor, answers: Tensor) -> Tensor:
        """Return which of several answers of each query are known, shape (n, m)."""
        return self._index.holds(self._keys(queries)[:, None], answers)

    def _keys(self, triples: Tensor) -> Tensor:
        first, second = self._given
        return triples[:, first] * self._n_entities + triples[:, second]


class AllScorer(Protocol):
    """What ranking needs of a model: scores of every tail and every head, shape (n, |E|)."""

    def tails(self, heads: Tensor, relations: Tensor) -> Tensor: ...

    def heads(self, relations: Tensor, tails: Tensor) -> Tensor: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def n_entities(self) -> int: ...


@dataclass(frozen=True)
class Ranks:
    """Ranks of queries, in parallel arrays: `better` scores beat the target, `ties` others equal it.

    `raw_*` count all entities; the plain ones leave out other known answers (the filtered setting).
    """

    relations: NDArray[np.int64]
    is_tail: NDArray[np.bool_]
    better: NDArray[np.int64]
    ties: NDArray[np.int64]
    candidates: NDArray[np.int64]
    raw_better: NDArray[np.int64]
    raw_ties: NDArray[np.int64]
    raw_candidates: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.relations)

    def select(self, keep: NDArray[np.bool_]) -> Ranks:
        return Ranks(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})

    def side(self, side: str) -> Ranks:
        if side not in SIDES:
            raise InputError(f"expected a side among {', '.join(SIDES)}, got {side!r}")
        return self if side == "both" else self.select(self.is_tail == (side == "tail"))

    def ranks(self, ties: str = "realistic", filtered: bool = True) -> NDArray[np.float64]:
        """Return the rank of each query under a tie rule; the best is 1."""
        better, equal = (self.better, self.ties) if filtered else (self.raw_better, self.raw_ties)
        share = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}
        if ties not in share:
            raise InputError(f"expected a tie rule among {', '.join(TIES)}, got {ties!r}")
        return 1.0 + better + share[ties] * equal


def both_sides(
    facts: NDArray[np.int64], known: NDArray[np.int64], n_entities: int, device: torch.device, chunk: int
) -> Iterator[tuple[Tensor, KnownAnswers, bool]]:
    """Yield `chunk` facts at a time, with the index of known answers and whether tails are asked for: first tails."""
    if len(facts) == 0:
        raise InputError("there are no facts to rank in this split")
    asked, filters = (torch.as_tensor(part, device=device) for part in (facts, known))
    for column in (2, 0):
        answers = KnownAnswers(filters, column, n_entities)
        for piece in asked.split(chunk):
            yield piece, answers, column == 2


class RankingTask:
    """Questions about facts, (h, r, ?) and (?, r, t) of each, with their known answers looked up: for many models."""

    def __init__(
        self,
        facts: NDArray[np.int64],
        known: NDArray[np.int64],
        n_entities: int,
        device: torch.device,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        self.facts, self.n_entities = facts, n_entities
        if device.type == "cpu":
            memory = min(memory, _CPU_CACHE)  # scores that stay in the cache are counted several times faster
        chunk = max(1, memory // (n_entities * _BYTES_PER_SCORE))
        chunks = both_sides(facts, known, n_entities, device, chunk)
        self.chunks = [(piece, answers.of(piece), is_tail) for piece, answers, is_tail in chunks]

    def rank(self, scorer: AllScorer, progress: Progress | None = None) -> Ranks:
        return self.rank_by(partial(_rank_chunk, scorer), progress)

    def rank_by(self, count: CountChunk, progress: Progress | None = None) -> Ranks:
        parts = []
        for facts, known, is_tail in self.chunks:
            parts.append(count(facts, known, is_tail))
            if progress is not None:
                progress(len(facts))
        better, equal, known_better, known_ties, filtered, is_nan = torch.cat(parts, dim=1)
        ties, entities = equal - 1, torch.full_like(better, self.n_entities)  # the target equals itself
        counts = (better - known_better, ties - known_ties, entities - filtered, better, ties, entities, is_nan)
        return ranks_of(torch.stack(counts), self.facts)


def ranks_of(counts: Tensor, facts: NDArray[np.int64]) -> Ranks:
    """Return ranks from counts of all tail queries, then all head queries, of some facts.

    `counts`, shape (7, 2 · facts), has the rows better, ties and candidates, the same raw, and NaN scores.
    """
    found = counts.cpu().numpy()  # nothing waits for the device before this line
    if found[-1].any():
        raise StayPositiveError("some scores are NaN or infinite; a model that has diverged cannot be ranked")
    return Ranks(np.tile(facts[:, 1], 2), np.repeat([True, False], len(facts)), *found[:-1])


def rank_facts(
    scorer: AllScorer,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Ranks:
    """Rank the tail of (h, r, ?) and the head of (?, r, t) for each fact, among all entities.

    `known` are the facts to filter by; `memory` bounds the bytes of scores held at once.
    """
    return RankingTask(facts, known, scorer.n_entities, scorer.device, memory).rank(scorer, progress)


def _rank_chunk(scorer: AllScorer, facts: Tensor, known: tuple[Tensor, Tensor], is_tail: bool) -> Tensor:
    heads, relations, tails = facts.unbind(1)
    scores = scorer.tails(heads, relations) if is_tail else scorer.heads(relations, tails)
    targets, (rows, answers) = tails if is_tail else heads, known
    return count_ranks(scores, scores.gather(1, targets[:, None]), rows, answers, answers != targets[rows])


def count_ranks(scores: Tensor, aims: Tensor, rows: Tensor, columns: Tensor, is_other: Tensor) -> Tensor:
    """Count, for each query, scores above its aim, scores equal to it, both among known answers, those, NaN scores.

    `scores` has shape (n, candidates) and `aims`, the targets' scores, (n, 1). `rows` and `columns` place the known
    answers in `scores`; of them `is_other` are not the target. They are subtracted later, so no matrix is masked.
    """
    better = torch.count_nonzero(scores > aims, dim=1)
    equal = torch.count_nonzero(scores == aims, dim=1)
    other = is_other.long()  # counted, not selected: a selection would wait for the device
    theirs, own = scores[rows, columns], aims[rows, 0]
    none = torch.zeros_like(better)
    of_known = [none.index_add(0, rows, part) for part in (other * (theirs > own), other * (theirs == own), other)]
    return torch.stack([better, equal, *of_known, torch.isnan(scores.sum(1)) | torch.isnan(aims[:, 0])])


def ranking_metrics(
    ranks: Ranks, *, ties: str = "realistic", filtered: bool = True, hits_at: Iterable[int] = (1, 3, 10)
) -> dict[str, float]:
    """Return MRR (up to 1), MR (from 1), Hits@k (up to 1) and AMRI (1 is perfect, 0 is chance).

    AMRI is the adjusted mean rank index of Berrendorf et al. 2020: 1 − Σ(rank − 1) / Σ(expected rank − 1), the
    expectation being over a random order of each query's candidates.
    """
    places = ranks.ranks(ties, filtered)
    if len(places) == 0:
        raise InputError("there are no queries to average over")
    expected = ((ranks.candidates if filtered else ranks.raw_candidates) - 1).sum() / 2
    metrics = {"mrr": float((1 / places).mean()), "mr": float(places.mean())}
    metrics |= {f"hits@{k}": float((places <= k).mean()) for k in hits_at}
    return metrics | {"amri": float(1 - (places - 1).sum() / expected) if expected else 1.0}
