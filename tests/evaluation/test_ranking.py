"""Ranks against a naive ranker with loops, ties and filters included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from staypositive.errors import InputError, StayPositiveError
from staypositive.evaluation import Ranks, rank_facts, ranking_metrics


class TableScorer:
    """Scores given outright, shape (|E|, |R|, |E|)."""

    device = torch.device("cpu")

    def __init__(self, scores: np.ndarray) -> None:
        self.scores = torch.as_tensor(scores)
        self.n_entities = len(scores)

    def tails(self, heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        return self.scores[heads, relations]

    def heads(self, relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        return self.scores[:, relations, tails].T


def naive(
    scores: np.ndarray, fact: tuple[int, int, int], is_tail: bool, known: set[tuple[int, ...]] | None
) -> tuple[int, int, int]:
    """Count better answers, tied ones and candidates, one at a time."""
    better = ties = 0
    candidates = 1
    for e in range(len(scores)):
        other = (fact[0], fact[1], e) if is_tail else (e, fact[1], fact[2])
        if other == fact or (known is not None and other in known):
            continue
        candidates += 1
        better += bool(scores[other] > scores[fact])
        ties += bool(scores[other] == scores[fact])
    return better, ties, candidates


triples = st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=108, max_size=108),
    st.lists(triples, min_size=1, max_size=12),
    st.lists(triples, max_size=25),
    st.sampled_from([1, 100, 10**9]),
)
def test_ranks_equal_a_naive_ranker(values: list[int], facts: list, extra: list, memory: int) -> None:
    scores = np.array(values, dtype=np.float32).reshape(6, 3, 6)  # few values: many ties
    known = np.array(facts + extra, dtype=np.int64)
    queries = np.array(facts, dtype=np.int64)
    ranks = rank_facts(TableScorer(scores), queries, known, memory=memory)
    filters = {tuple(row) for row in known.tolist()}
    for i, is_tail in enumerate([True] * len(facts) + [False] * len(facts)):
        fact = facts[i % len(facts)]
        assert (ranks.better[i], ranks.ties[i], ranks.candidates[i]) == naive(scores, fact, is_tail, filters)
        assert (ranks.raw_better[i], ranks.raw_ties[i], ranks.raw_candidates[i]) == naive(scores, fact, is_tail, None)
        assert (bool(ranks.is_tail[i]), int(ranks.relations[i])) == (is_tail, fact[1])


def some_ranks() -> Ranks:
    a = np.array
    return Ranks(
        relations=a([0, 0, 1, 1]),
        is_tail=a([True, True, False, False]),
        better=a([0, 1, 0, 9]),
        ties=a([0, 0, 2, 0]),
        candidates=a([10, 10, 10, 10]),
        raw_better=a([0, 3, 0, 9]),
        raw_ties=a([0, 0, 2, 0]),
        raw_candidates=a([12, 12, 12, 12]),
    )


def test_metrics_by_hand() -> None:
    ranks = some_ranks()
    assert ranks.ranks().tolist() == [1, 2, 2, 10]
    assert ranks.ranks("optimistic").tolist() == [1, 2, 1, 10]
    assert ranks.ranks("pessimistic").tolist() == [1, 2, 3, 10]
    assert ranks.ranks(filtered=False).tolist() == [1, 4, 2, 10]
    metrics = ranking_metrics(ranks)
    assert metrics["mrr"] == pytest.approx((1 + 0.5 + 0.5 + 0.1) / 4)
    assert metrics["mr"] == pytest.approx(15 / 4)
    assert (metrics["hits@1"], metrics["hits@3"], metrics["hits@10"]) == (0.25, 0.75, 1.0)
    assert metrics["amri"] == pytest.approx(1 - (0 + 1 + 1 + 9) / (4 * 4.5))
    assert ranking_metrics(ranks.side("tail"))["mr"] == 1.5
    assert ranking_metrics(ranks.side("head"), hits_at=[2])["hits@2"] == 0.5
    assert ranking_metrics(ranks, filtered=False)["amri"] == pytest.approx(1 - 13 / 22)


def test_a_constant_scorer_is_at_chance() -> None:
    facts = np.array([(h, 0, (h + 1) % 9) for h in range(9)])
    ranks = rank_facts(TableScorer(np.zeros((9, 1, 9))), facts, facts)
    assert ranking_metrics(ranks)["amri"] == pytest.approx(0)
    assert ranking_metrics(ranks)["hits@1"] == 0
    assert ranking_metrics(ranks, ties="optimistic")["mrr"] == 1


def test_one_candidate_alone_is_perfect() -> None:
    facts = np.array([(0, 0, 0)])
    assert ranking_metrics(rank_facts(TableScorer(np.zeros((1, 1, 1))), facts, facts))["amri"] == 1.0


def test_nan_scores_fail() -> None:
    scores = np.zeros((3, 1, 3))
    scores[0, 0, 2] = np.nan
    with pytest.raises(StayPositiveError, match="NaN"):
        rank_facts(TableScorer(scores), np.array([(0, 0, 1)]), np.array([(0, 0, 1)]))


def test_progress_counts_queries() -> None:
    facts, done = np.array([(0, 0, 1)] * 5), []
    rank_facts(TableScorer(np.zeros((3, 1, 3))), facts, facts, memory=48, progress=done.append)
    assert sum(done) == 10
    assert len(done) > 2


def test_bad_requests() -> None:
    with pytest.raises(InputError, match="no facts"):
        rank_facts(
            TableScorer(np.zeros((2, 1, 2))), np.empty((0, 3), dtype=np.int64), np.empty((0, 3), dtype=np.int64)
        )
    with pytest.raises(InputError, match="tie rule"):
        some_ranks().ranks("fair")
    with pytest.raises(InputError, match="side"):
        some_ranks().side("left")
    with pytest.raises(InputError, match="no queries"):
        ranking_metrics(some_ranks().select(np.zeros(4, dtype=bool)))
