"""Ranks among drawn entities, against loops over the same draws; and what all draws together say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from staypositive.errors import InputError, StayPositiveError
from staypositive.evaluation import rank_facts, rank_sampled, ranking_metrics


class RowScorer:
    """Queries are the entities' own rows: few values, so that there are ties."""

    device = torch.device("cpu")

    def __init__(self, n: int = 30, seed: int = 0) -> None:
        self.entity_rows = torch.randint(-1, 2, (n, 2), generator=torch.Generator().manual_seed(seed)).double()
        self.n_entities = n

    def queries(self, triples: Tensor, side: str) -> Tensor:
        heads, relations, tails = triples.unbind(1)
        if side == "tail":
            return self.entity_rows[heads] * (1 + relations[:, None])
        return self.entity_rows[tails] - relations[:, None]

    def tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self.queries(torch.stack([heads, relations, heads], dim=1), "tail") @ self.entity_rows.T

    def heads(self, relations: Tensor, tails: Tensor) -> Tensor:
        return self.queries(torch.stack([tails, relations, tails], dim=1), "head") @ self.entity_rows.T


FACTS = np.random.default_rng(1).integers((30, 2, 30), size=(40, 3))


@pytest.mark.parametrize("memory", [10**9, 2000])
def test_each_query_meets_its_draws(memory: int) -> None:
    scorer, k = RowScorer(), 9
    ranks = rank_sampled(scorer, FACTS[:15], FACTS, k, seed=4, memory=memory)
    draw = torch.Generator().manual_seed(4)
    drawn = torch.randint(30, (30, k), generator=draw).numpy()  # a generator goes on where it was, chunk after chunk
    known = set(map(tuple, FACTS.tolist()))
    for place in range(30):
        h, r, t = FACTS[place % 15].tolist()
        is_tail = place < 15
        one = torch.tensor([h if is_tail else t]), torch.tensor([r])
        scores = (scorer.tails(*one) if is_tail else scorer.heads(one[1], one[0]))[0]
        target = t if is_tail else h
        raw = [e for e in drawn[place].tolist() if e != target]
        kept = [e for e in raw if ((h, r, e) if is_tail else (e, r, t)) not in known]
        for pool, found in (
            (kept, (ranks.better, ranks.ties, ranks.candidates)),
            (raw, (ranks.raw_better, ranks.raw_ties, ranks.raw_candidates)),
        ):
            expected = (
                sum(scores[e] > scores[target] for e in pool), sum(scores[e] == scores[target] for e in pool),
                len(pool) + 1,
            )  # fmt: skip
            assert tuple(part[place] for part in found) == expected


def test_many_draws_come_near_the_rank_among_all() -> None:
    scorer = RowScorer()
    sampled, whole = rank_sampled(scorer, FACTS, FACTS, 20_000), rank_facts(scorer, FACTS, FACTS)
    shares = sampled.better / (sampled.candidates - 1), whole.better / (whole.candidates - 1)
    assert np.abs(shares[0] - shares[1]).max() < 0.02
    few = ranking_metrics(rank_sampled(scorer, FACTS, FACTS, 3))
    assert few["mrr"] > ranking_metrics(whole)["mrr"]  # why the two must not be mixed up


def test_bad_requests() -> None:
    scorer = RowScorer()
    with pytest.raises(InputError, match="at least 1 candidate, got 0"):
        rank_sampled(scorer, FACTS, FACTS, 0)
    with pytest.raises(InputError, match="no facts to rank"):
        rank_sampled(scorer, FACTS[:0], FACTS, 5)
    scorer.entity_rows[3] = torch.nan
    with pytest.raises(StayPositiveError, match="NaN"):
        rank_sampled(scorer, np.array([(3, 0, 1)]), FACTS, 5)
