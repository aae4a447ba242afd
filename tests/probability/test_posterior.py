"""Probabilities from null distributions: closed forms against enumeration, and a posterior that can be checked."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

import staypositive as sp
from conftest import planted_graph, quick_fit
from staypositive.errors import InputError
from staypositive.evaluation import negative_log_likelihood, sigmoid
from staypositive.graph import KnowledgeGraph, Split
from staypositive.models import Scorer
from staypositive.probability import (
    Beta,
    Features,
    NullDistribution,
    NullLogistic,
    Posterior,
    calibrator_from_dict,
    fit_calibrator,
    kernel_density,
)
from staypositive.probability import null_distribution as null_module


def features_of(tail_z: np.ndarray, relations: np.ndarray | None = None) -> Features:
    n = len(tail_z)
    zeros = np.zeros(n)
    return Features(
        np.zeros(n, dtype=np.int64) if relations is None else relations, tail_z, tail_z, tail_z, tail_z, zeros + 1.0
    )


@pytest.mark.parametrize("objective", ["stay-positive", "second-moment"])
def test_z_scores_equal_enumeration(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    monkeypatch.setattr(null_module, "SHRINK", 0.0)
    graph = planted_graph()
    run = sp.fit(graph, model="complex", objective=objective, dim=5, epochs=3)
    scorer = Scorer(run.model).asked()
    triples = graph.test.triples[:40]
    found = NullDistribution(graph, scorer).features(triples)
    train = graph.train.facts
    for i, (h, r, t) in enumerate(triples.tolist()):
        ids = torch.tensor([h]), torch.tensor([r]), torch.tensor([t])
        tails = scorer.tails(ids[0], ids[1])[0].double().detach().numpy()
        heads = scorer.heads(ids[1], ids[2])[0].double().detach().numpy()
        span = np.unique(train[train[:, 1] == r, 2])
        domain = np.unique(train[train[:, 1] == r, 0])
        assert found.tail_scores[i] == pytest.approx(tails[t], abs=1e-5)
        assert found.head_scores[i] == pytest.approx(heads[h], abs=1e-5)
        assert found.tail_z[i] == pytest.approx(
            (tails[t] - tails[span].mean()) / tails[span].std(), rel=2e-3, abs=1e-3
        )
        expected = (heads[h] - heads[domain].mean()) / heads[domain].std()
        assert found.head_z[i] == pytest.approx(expected, rel=2e-3, abs=1e-3)


def people(n: int = 30) -> KnowledgeGraph:
    """People who are one of two things each, know each other, and all live in one place."""
    draw = np.random.default_rng(0)
    is_a = [(f"p{i}", "is", "ab"[i % 2]) for i in range(n)]
    knows = [(f"p{i}", "knows", f"p{j}") for i, j in draw.integers(n, size=(6 * n, 2))]
    lives = [(f"p{i}", "lives in", "here") for i in range(n)]
    return sp.load_graph(pd.DataFrame([*is_a, *knows, *lives], columns=["head", "relation", "tail"]), seed=0)


def test_a_small_range_borrows_its_spread_and_keeps_its_mean() -> None:
    graph = people()
    run = sp.fit(graph, model="distmult", dim=5, epochs=3)
    null = NullDistribution(graph, Scorer(run.model))
    rows = null.scorer.entity_rows
    for label, count in (("is", 2), ("knows", 30)):
        relation = graph.relations.id(label)
        members = null.members["tail"][relation]
        assert 2 <= len(members) <= count
        share = len(members) / (len(members) + null_module.SHRINK)
        found = null.moments("tail", relation)
        torch.testing.assert_close(found.mean, rows[members].mean(0))
        own, whole = (torch.cov(part.T, correction=0) for part in (rows[members], rows))
        torch.testing.assert_close(found.covariance, share * own + (1 - share) * whole, rtol=1e-4, atol=1e-6)
    found = null.moments("tail", graph.relations.id("lives in"))  # one answer: wrong ones come from anywhere
    torch.testing.assert_close(found.mean, rows.mean(0))


def test_candidates_are_the_other_answers_of_small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people()
    run = sp.fit(graph, model="distmult", dim=5, epochs=3)
    null = NullDistribution(graph, Scorer(run.model))
    asked = []
    monkeypatch.setattr(null, "features", lambda triples: asked.append(triples))
    monkeypatch.setattr(null_module, "SMALL_RANGE", 2)
    facts = graph.train.facts
    null.candidates_in_range(facts)
    (found,) = asked
    is_a, held = graph.relations.id("is"), {tuple(fact) for fact in facts.tolist()}
    both = {graph.entities.id(label) for label in "ab"}
    expected = {(h, r, t) for h, r, _ in held if r == is_a for t in both} - {
        tuple(fact) for fact in graph.facts("train", "valid").tolist()
    }
    assert {tuple(triple) for triple in found.tolist()} == expected
    monkeypatch.setattr(null_module, "SMALL_RANGE", 1000)
    monkeypatch.setattr(null_module, "CANDIDATES", 50)
    null.candidates_in_range(facts)
    assert 0 < len(asked[1]) < 50 + len(facts)  # about so many for each relation, one a fact at the least
    assert len(np.unique(asked[1][:, 2])) > 20  # and all members in turn


def test_a_range_of_two_has_no_bell() -> None:
    """The right answer is at z = 3 four times in five, else at 2, and the wrong one at the other end."""
    draw = np.random.default_rng(5)
    right = draw.random(2000) < 0.8
    facts, others = (np.where(right == side, 3.0, 2.0) + draw.normal(0, 0.05, 2000) for side in (True, False))
    everything = features_of(np.concatenate([facts, others]))
    signs = np.repeat([1, -1], 2000)
    first = np.tile(np.arange(2000) < 1000, 2)  # fitted to one half
    held, truth = everything.select(first), (signs > 0)[first]
    candidates = everything.select(first & (signs < 0))
    best = -0.8 * np.log(0.8) - 0.2 * np.log(0.2)
    losses = [
        negative_log_likelihood(
            Posterior.fit_features(held, truth, own, statistic="tail").apply_features(everything.select(~first)),
            signs[~first],
        )
        for own in (candidates, None)
    ]
    assert losses[0] < best + 0.02
    assert losses[1] > best + 0.2


def test_the_correlation_of_both_sides() -> None:
    """Against all pairs of a relation's domain and range, in a graph whose interaction is strong."""
    graph = planted_graph()
    run = sp.fit(graph, model="complex", dim=6, epochs=20, learning_rate=0.3, batch_size=64)
    null = NullDistribution(graph, Scorer(run.model))
    domain, span = null.members["head"][0], null.members["tail"][0]
    pairs = torch.cartesian_prod(domain, span)
    triples = torch.stack([pairs[:, 0], torch.zeros(len(pairs), dtype=torch.int64), pairs[:, 1]], 1).numpy()
    features = null.features(triples)
    found = np.corrcoef(features.tail_z, features.head_z)[0, 1]
    assert features.correlations[0] == pytest.approx(found, abs=0.1)
    assert features.combined_z.std() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("count", [1, 30, 3000])
@pytest.mark.parametrize("width", [0.02, 0.3, 2.0])
def test_densities_are_the_plain_sum_of_kernels(count: int, width: float) -> None:
    values = np.random.default_rng(count).normal(0, 2, count)
    values[0] = 40.0  # far outside: it counts, and is nowhere near
    knots = np.linspace(-5, 6, 400)
    plain = np.exp(-0.5 * ((knots[:, None] - values) / width) ** 2).mean(1) / (width * math.sqrt(2 * math.pi))
    found = kernel_density(values, knots, width)
    assert np.abs(found - plain).max() <= 3e-3 * plain.max() + 1e-12
    assert found.sum() == pytest.approx(plain.sum(), rel=1e-3, abs=1e-12)


def test_a_posterior_finds_the_log_ratio() -> None:
    """Facts from N(3, 1) against N(0, 1): the log-odds are 3z − 4.5."""
    draw = np.random.default_rng(0)
    facts = draw.normal(3, 1, 20_000)
    posterior = Posterior.fit_features(features_of(facts), np.ones(len(facts), dtype=bool), statistic="tail")
    z = np.linspace(-0.5, 3.5, 9)
    found = posterior.apply_features(features_of(z))
    np.testing.assert_allclose(found, 3 * z - 4.5, atol=0.8)
    everywhere = posterior.apply_features(features_of(np.linspace(-50, 50, 2001)))
    assert (np.diff(everywhere) >= -1e-12).all()
    assert np.abs(everywhere).max() < np.log(20_002) + 0.02
    both = np.concatenate([facts[:5000], draw.normal(0, 1, 5000)])
    signs = np.repeat([1, -1], 5000)
    nll = negative_log_likelihood(posterior.apply_features(features_of(both)), signs)
    best = negative_log_likelihood(3 * both - 4.5, signs)
    assert nll < best + 0.01


def test_labels_of_false_triples_are_not_looked_at() -> None:
    draw = np.random.default_rng(1)
    z, truth = draw.normal(size=400), np.arange(400) < 200
    one = Posterior.fit_features(features_of(z), truth)
    z[200:] += 100
    assert Posterior.fit_features(features_of(z), truth) == one


def test_relations_with_enough_facts_have_their_own_curve() -> None:
    draw = np.random.default_rng(2)
    z = np.concatenate([draw.normal(1, 1, 3000), draw.normal(5, 1, 3000), draw.normal(3, 1, 10)])
    relations = np.repeat([0, 1, 2], [3000, 3000, 10])
    posterior = Posterior.fit_features(features_of(z, relations), np.ones(len(z), dtype=bool), statistic="tail")
    assert posterior.relations == (0, 1)
    found = posterior.apply_features(features_of(np.full(3, 1.0), np.array([0, 1, 2])))
    assert found[0] > found[2] > found[1]
    again = calibrator_from_dict(posterior.as_dict())
    assert again == posterior
    with pytest.raises(InputError, match="at least 10"):
        Posterior.fit_features(features_of(z[:5]), np.ones(5, dtype=bool))


def test_both_sides_are_combined_when_that_helps() -> None:
    draw = np.random.default_rng(3)
    n = 3000
    relations = np.zeros(n, dtype=np.int64)
    tail, head = draw.normal(1.5, 1, n), draw.normal(1.5, 1, n)
    features = Features(relations, tail, head, tail, head, np.zeros(n))
    assert Posterior.fit_features(features, np.ones(n, dtype=bool)).statistic == "combined"
    useless = Features(relations, tail, head, tail + 2, draw.normal(0, 1, n), np.zeros(n))
    assert Posterior.fit_features(useless, np.ones(n, dtype=bool)).statistic == "tail"


def test_logistic_and_beta() -> None:
    draw = np.random.default_rng(4)
    truth = np.arange(4000) % 2 == 0
    z = draw.normal(size=4000) + 2 * truth
    signs = np.where(truth, 1, -1)
    logistic = fit_calibrator("null-logistic", z, signs, features_of(z))
    assert isinstance(logistic, NullLogistic)
    assert calibrator_from_dict(logistic.as_dict()) == logistic
    assert negative_log_likelihood(logistic.apply_features(features_of(z)), signs) < 0.40
    bent = np.where(z > 0, 3 * z, 0.2 * z) - 1
    beta = fit_calibrator("beta", bent, signs)
    assert isinstance(beta, Beta)
    assert negative_log_likelihood(beta.apply(bent), signs) <= (
        negative_log_likelihood(fit_calibrator("platt", bent, signs).apply(bent), signs) + 1e-6
    )
    assert (np.diff(beta.apply(np.linspace(-20, 20, 100))) >= -1e-9).all()
    for name in ("posterior", "null-logistic"):
        with pytest.raises(InputError, match="needs the null distributions"):
            fit_calibrator(name, z, signs)
    with pytest.raises(InputError, match="by their null distributions"):
        logistic.apply(z)
    with pytest.raises(InputError, match="not to logits"):
        NullLogistic.fit(z, truth)


def test_relations_have_weights_of_their_own() -> None:
    draw = np.random.default_rng(5)
    truth = np.arange(6000) % 2 == 0
    relations = np.arange(6000) % 3  # of relation 0 the scores say nothing, of 2 there are few labels
    z = draw.normal(size=6000) + np.where(relations == 0, 0, 2 * truth)
    keep = (relations != 2) | (np.arange(6000) < 90)
    features = dataclasses.replace(features_of(z), relations=relations).select(keep)
    fitted = NullLogistic.fit_features(features, truth[keep])
    assert fitted.relations == (0, 1)
    asked = np.linspace(-1, 3, 9)
    says_nothing, says, few = (
        fitted.apply_features(dataclasses.replace(features_of(asked), relations=np.full(9, r))) for r in (0, 1, 2)
    )
    assert np.abs(says_nothing).max() < 0.8  # log-odds; those of all relations would be up to 4
    np.testing.assert_allclose(says, 2 * asked - 2, atol=0.9)  # what N(2, 1) against N(0, 1) says
    assert (np.diff(few) > 0).all()  # by the weights of all


def test_lines_bend_where_the_odds_do() -> None:
    """True in the middle alone: no line can say that, nor can a monotone map."""
    draw = np.random.default_rng(7)
    z = draw.uniform(-3, 3, 8000)
    truth = np.abs(z) < 1
    fitted = NullLogistic.fit_features(features_of(z), truth)
    found = fitted.apply_features(features_of(np.array([-2.5, 0.0, 2.5])))
    assert found[1] > 2
    assert max(found[0], found[2]) < -2


def test_beyond_what_was_fitted_the_outermost_counts() -> None:
    draw = np.random.default_rng(6)
    truth = np.arange(2000) % 2 == 0
    z = draw.normal(size=2000) + 2 * truth
    fitted = NullLogistic.fit_features(features_of(z), truth)
    far, edge = (fitted.apply_features(features_of(np.array([value]))) for value in (1e6, z.max()))
    np.testing.assert_allclose(far, edge)
    assert calibrator_from_dict(fitted.as_dict()) == fitted


@pytest.mark.parametrize("method", ["posterior", "null-logistic", "beta"])
def test_a_run_calibrates_saves_and_predicts(tmp_path, method: str) -> None:
    graph = planted_graph()
    run = quick_fit(graph)
    change = run.calibrate(method)
    assert change["nll_after"] < 0.5
    report = run.evaluate("test", ranking=False)["classification"]["all"]
    assert report[method]["nll"] < 0.5
    triples = graph.test.triples
    found = run.predict_proba(triples, like_labelled=True)
    np.testing.assert_allclose(found, sigmoid(run.predictor.labelled_log_odds(triples)))
    assert (sigmoid(run.predictor.labelled_log_odds(triples, prior=0.01)) < found).all()
    again = sp.load_run(run.save(tmp_path / "run")).predict_proba(triples, like_labelled=True)
    np.testing.assert_allclose(again, found, rtol=1e-6)


def test_posterior_needs_no_labels() -> None:
    graph = planted_graph()
    facts = dataclasses.replace(graph, valid=Split(graph.valid.facts), test=graph.test)
    run = quick_fit(facts)
    assert "nll_after" not in run.calibrate("posterior")
    probabilities = run.predict_proba(graph.test.triples, like_labelled=True)
    truth = graph.test.signs > 0
    assert probabilities[truth].mean() > 0.65
    assert probabilities[~truth].mean() < 0.35
    with pytest.raises(InputError, match="platt needs validation triples labelled true and false"):
        run.calibrate("platt")
