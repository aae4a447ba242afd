"""The probability of unknown triples: how many it says are missing, what it assumes, and what files may claim."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import staypositive as sp
from conftest import Labels, incomplete_graph, planted_graph, quick_fit
from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.graph import Split
from staypositive.probability import ENOUGH_HELD_OUT, Evidence, TriplePosterior
from staypositive.probability.triple_posterior import GRID, PARTS, part_of


def unknown(run: sp.Run) -> np.ndarray:
    evidence, n, parts = run._evidence, len(run.graph.entities), []
    for relation in range(len(run.graph.relations)):
        every = np.array([(h, relation, t) for h in range(n) for t in range(n)])
        parts.append(every[evidence.is_unknown(every, relation)])
    return np.concatenate(parts)


def ids(graph: sp.KnowledgeGraph, facts: list[Labels]) -> np.ndarray:
    heads, relations, tails = zip(*facts, strict=True)
    return np.column_stack([graph.entities.ids(heads), graph.relations.ids(relations), graph.entities.ids(tails)])


@pytest.fixture(scope="module")
def posterior(incomplete_run: sp.Run) -> TriplePosterior:
    assert incomplete_run.posterior is not None
    return incomplete_run.posterior


@pytest.mark.parametrize("completeness", [None, 0.5, 0.9, 0.99])
def test_all_probabilities_sum_to_the_missing_number(incomplete_run: sp.Run, completeness: float | None) -> None:
    posterior = incomplete_run.predictor.assuming(completeness).posterior
    assert posterior is not None
    assert posterior.facts == len(incomplete_run.graph.facts())
    stated = sigmoid(posterior.log_odds(incomplete_run._evidence, unknown(incomplete_run))).sum()
    assert stated == pytest.approx(posterior.missing, rel=0.05)  # counted by intervals of log-odds
    new, pairs = posterior.expected()
    assert new.sum() == pytest.approx(posterior.missing, rel=1e-6)
    assert pairs.sum() == pytest.approx(len(unknown(incomplete_run)), rel=0.01)


def test_another_completeness_is_another_offset(posterior: TriplePosterior, incomplete_run: sp.Run) -> None:
    assert posterior.completeness == pytest.approx(posterior.facts / (posterior.facts + posterior.missing))
    same = posterior.assuming(posterior.completeness)
    assert same.offset == pytest.approx(posterior.offset, abs=1e-6)
    triples = incomplete_run.graph.test.facts
    plain = posterior.log_odds(incomplete_run._evidence, triples)
    for share in (0.3, 0.95):
        other = posterior.assuming(share)
        assert other.completeness == pytest.approx(share)
        assert other.missing == pytest.approx(posterior.facts * (1 - share) / share)
        moved = other.log_odds(incomplete_run._evidence, triples)
        np.testing.assert_allclose(moved - plain, other.offset - posterior.offset, atol=1e-9)
        assert other.assuming(posterior.completeness).offset == pytest.approx(posterior.offset, abs=1e-6)
    for share in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InputError, match="completeness is the share of true facts in the graph, between 0 and 1"):
            posterior.assuming(share)


def test_hidden_facts_are_as_many_as_is_said(
    incomplete_run: sp.Run, incomplete: tuple[sp.KnowledgeGraph, list[Labels]]
) -> None:
    """As many are hidden as were held out; how they lie among relations and probabilities is nowhere stated."""
    graph, hidden = ids(incomplete_run.graph, incomplete[1]), unknown(incomplete_run)
    stated = sigmoid(incomplete_run.predictor.log_odds(hidden))
    is_true = np.isin(incomplete_run._evidence.keys(hidden), incomplete_run._evidence.keys(graph))
    assert is_true.sum() == len(incomplete[1]) == 60
    assert incomplete_run.posterior.missing == pytest.approx(60)
    for relation in (0, 1):
        own = hidden[:, 1] == relation
        assert stated[own].sum() == pytest.approx(is_true[own].sum(), abs=4 * math.sqrt(is_true[own].sum()))
    likely = stated > 0.5
    assert is_true[likely].mean() == pytest.approx(stated[likely].mean(), abs=0.15)
    assert stated[~likely].sum() == pytest.approx(is_true[~likely].sum(), abs=10)
    new, error = incomplete_run.posterior.expected_with_error()
    assert (abs(new - np.bincount(graph[:, 1])) < 4 * error).all()


@pytest.mark.parametrize("hidden", [20, 120])
def test_the_hidden_number_may_be_given(hidden: int) -> None:
    graph, missing = incomplete_graph(hidden=hidden)
    facts = len(graph.facts())
    run = quick_fit(graph, epochs=10)
    report = run.calibrate(completeness=facts / (facts + hidden))
    assert report["missing"] == pytest.approx(hidden)
    chance = run.predict_proba(missing)
    assert chance.mean() > 0.6
    assert sigmoid(run.predictor.log_odds(unknown(run))).sum() == pytest.approx(hidden, rel=0.05)
    assert run.posterior.sum_before_offset == pytest.approx(hidden, rel=0.5)


def test_no_more_is_missing_than_there_is_room_for() -> None:
    """Of a graph that lacks nothing, no unknown pair looks like a held-out fact."""
    graph, _ = incomplete_graph(hidden=0)
    run = quick_fit(graph, epochs=10)
    run.calibrate()
    assert run.posterior.held_out == 60
    assert run.posterior.missing < 30
    assert run.posterior.missing <= run.posterior.most_missing * (1 + 1e-9) or run.posterior.missing < 60
    new, _ = run.posterior.expected()
    assert new.sum() == pytest.approx(run.posterior.missing, rel=1e-6)


def test_every_pair_is_judged_by_models_that_did_not_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = incomplete_graph()
    run, kept = quick_fit(graph, epochs=2), []
    from staypositive.probability.additive import Additive

    whole = Additive.fitted
    monkeypatch.setattr(Additive, "fitted", lambda self, sample, rho: kept.append(sample) or whole(self, sample, rho))
    run.calibrate(completeness=0.9)
    facts = graph.valid.facts
    parts = part_of(facts)
    assert set(parts) == set(range(PARTS))
    assert [int(sample.is_fact.sum()) for sample in kept] == [int((parts != part).sum()) for part in range(PARTS)]
    evidence = run._evidence
    for part, model in enumerate(run.posterior.models):
        own = facts[parts == part]
        judged = np.interp(model.log_odds(evidence.features(own), own[:, 1]), GRID, run.posterior.mapped)
        np.testing.assert_allclose(run.posterior.log_odds(evidence, own), judged + run.posterior.offset, atol=1e-9)
    assert (np.diff(run.posterior.mapped) >= 0).all()


def test_parts_are_spread_evenly_and_go_by_ids_alone() -> None:
    every = np.array([(h, r, t) for h in range(40) for r in range(3) for t in range(40)])
    parts = part_of(every)
    counts = np.bincount(parts, minlength=PARTS)
    assert (abs(counts - len(every) / PARTS) < 5 * math.sqrt(len(every) / PARTS)).all()
    order = np.random.default_rng(0).permutation(len(every))
    np.testing.assert_array_equal(part_of(every[order]), parts[order])


def test_fifty_held_out_facts_are_enough() -> None:
    graph, _ = incomplete_graph()
    enough = quick_fit(dataclasses.replace(graph, valid=Split(graph.valid.facts[:ENOUGH_HELD_OUT])), epochs=2)
    assert enough.why_no_probability() == "none were fitted yet; `calibrate` does it"
    enough.calibrate()
    assert enough.why_no_probability() is None
    repeated = np.concatenate(
        [graph.valid.facts[: ENOUGH_HELD_OUT - 1], graph.valid.facts[:9], graph.train.facts[:9]]
    )
    too_few = dataclasses.replace(graph, valid=Split(repeated))
    run = quick_fit(too_few, epochs=2)
    reason = "they need 50 validation facts that are not training facts, and there are 49"
    assert run.why_no_probability() == reason
    with pytest.raises(InputError, match=f"there is nothing to calibrate.*{reason}"):
        run.calibrate()
    assert run.posterior is None
    evidence = Evidence(too_few.facts(), run._scorer, 2)
    with pytest.raises(
        InputError, match="at least 50 validation facts that are not training facts, and there are 49"
    ):
        TriplePosterior.fit(evidence, too_few.train.facts, too_few.valid.facts)


def test_a_seed_and_the_order_of_facts_mean_one_fit() -> None:
    graph, _ = incomplete_graph(24, 3, 30, 60)
    run, order = quick_fit(graph, epochs=3), np.random.default_rng(0).permutation(60)
    evidence, triples = run._evidence, graph.test.facts
    first = TriplePosterior.fit(evidence, graph.train.facts, graph.valid.facts)
    second = TriplePosterior.fit(evidence, graph.train.facts[::-1], graph.valid.facts[order])
    np.testing.assert_allclose(
        first.log_odds(evidence, triples), second.log_odds(evidence, triples), rtol=1e-6, atol=1e-6
    )


def test_labels_play_no_part() -> None:
    graph = planted_graph()
    run = quick_fit(graph, epochs=2)
    plain = dataclasses.replace(graph, valid=Split(graph.valid.facts), test=Split(graph.test.facts))
    other = sp.Run(plain, run.model, run.settings, run.history, run.best_epoch, run.provenance)
    run.calibrate("platt")
    assert set(other.calibrate()) == {"completeness", "missing"}
    assert other.calibrator is None
    triples = graph.test.triples
    np.testing.assert_allclose(run.predict_proba(triples), other.predict_proba(triples), atol=1e-6)


def test_a_saved_run_gives_the_same_log_odds(incomplete_run: sp.Run, tmp_path: Path) -> None:
    again = sp.load_run(incomplete_run.save(tmp_path / "run"))
    triples = unknown(incomplete_run)
    np.testing.assert_allclose(
        again.predictor.log_odds(triples), incomplete_run.predictor.log_odds(triples), atol=1e-6
    )
    assert again.posterior.as_dict() == incomplete_run.posterior.as_dict()
    again.calibrate(completeness=0.7)
    again.save_results(tmp_path / "run")
    assert sp.load_run(tmp_path / "run").posterior.completeness == pytest.approx(0.7)
