"""New facts to expect, against an enumeration of every pair."""

from __future__ import annotations

import numpy as np
import pytest

import staypositive as sp
from staypositive.inference import expected_counts


def enumerated(run: sp.Run, relation: int, prior: float | None) -> tuple[float, float, int]:
    graph = run.graph
    trained = graph.train.facts[graph.train.facts[:, 1] == relation]
    known = {tuple(fact) for fact in graph.facts().tolist()}
    domain, span = sorted(set(trained[:, 0].tolist())), sorted(set(trained[:, 2].tolist()))
    inside = sum((h, relation, t) in known for h in domain for t in span)
    assumed = (inside + 0.5) / (len(domain) * len(span) + 1) if prior is None else prior
    total = 0.0
    for h in domain:
        for t in span:
            if h != t and (h, relation, t) not in known:
                logit = run.predictor.triple_logits(np.array([[h, relation, t]]), prior=assumed)[0]
                total += 1 / (1 + np.exp(-logit))
    return total, assumed, inside


@pytest.mark.parametrize("prior", [None, 0.1])
def test_all_pairs_are_judged_where_they_are_few(planted_run: sp.Run, prior: float | None) -> None:
    planted_run.calibrate("platt")
    for expected in expected_counts(planted_run.predictor, prior=prior):
        total, assumed, inside = enumerated(planted_run, expected.relation, prior)
        assert expected.new == pytest.approx(total, rel=1e-9)
        assert (expected.prior, expected.facts, expected.error) == (pytest.approx(assumed), inside, 0.0)


def test_a_sample_comes_near_within_its_error(planted_run: sp.Run) -> None:
    planted_run.calibrate("platt")
    told: list[int] = []
    whole = expected_counts(planted_run.predictor)
    drawn = expected_counts(planted_run.predictor, samples=600, seed=1, progress=told.append)
    assert told == [1, 1]
    for exact, estimate in zip(whole, drawn, strict=True):
        assert estimate.error > 0
        assert abs(estimate.new - exact.new) < 4 * estimate.error
    with pytest.raises(sp.InputError, match="samples must be at least 2"):
        expected_counts(planted_run.predictor, samples=1)
