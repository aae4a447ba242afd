"""Conformal prediction sets: the promise, the sizes, and the closed form behind them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph, quick_fit
from staypositive.cli import app
from staypositive.errors import InputError
from staypositive.inference import entry_coverages
from staypositive.models import Scorer
from staypositive.probability import Conformal, Nonconformity


@pytest.fixture(scope="module")
def run() -> sp.Run:
    return quick_fit(planted_graph())


def test_nonconformity_is_what_the_z_scores_of_all_entities_say(run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.probability.prediction_sets.PIECE", 7 * len(run.graph.entities))
    scorer = Scorer(run.model).asked()
    facts = run.graph.test.facts[:20]
    asked = torch.as_tensor(facts)
    nonconformity = Nonconformity(run._scorer)
    for side, scores, column in (
        ("tail", scorer.tails(asked[:, 0], asked[:, 1]), 2),
        ("head", scorer.heads(asked[:, 1], asked[:, 2]), 0),
    ):
        plain = scores.double().detach().numpy()
        z = (plain - plain.mean(1, keepdims=True)) / plain.std(1, keepdims=True)
        scored = np.log(np.maximum((z**4).mean(1, keepdims=True), 1)) / 2 - z
        np.testing.assert_allclose(nonconformity.of_all(asked, side).numpy(), scored, rtol=1e-3, atol=1e-3)
        own = scored[np.arange(len(facts)), facts[:, column]]
        np.testing.assert_allclose(nonconformity.of_facts(facts, side), own, rtol=1e-3, atol=1e-3)


def test_large_graphs_are_fitted_to_some_facts(run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = np.tile(run.graph.valid.facts, (40, 1))[:2500]
    monkeypatch.setattr("staypositive.probability.prediction_sets.SCORES", 1)
    found = Conformal.fit(run._scorer, facts)
    assert len(found.pooled["tail"]) == len(facts[::3]) == 834
    assert len(Conformal.fit(run._scorer, facts[:1000]).pooled["tail"]) == 1000


def test_thresholds_are_conformal_quantiles() -> None:
    values = np.arange(1.0, 20.0)  # 19 held-out answers
    conformal = Conformal({"tail": values, "head": values}, {("tail", 3): np.arange(100.0, 200.0)})
    assert conformal.threshold("tail", 0, 0.9) == 18.0  # the 18th of 19: ⌈20 · 0.9⌉
    assert conformal.threshold("tail", 0, 0.99) == math.inf
    assert conformal.threshold("tail", 3, 0.5) == 150.0
    assert conformal.threshold("tail", 3, 0.5, per_relation=False) == 10.0
    with pytest.raises(InputError, match="between 0 and 1"):
        conformal.threshold("tail", 0, 1.0)


def test_an_entry_is_the_threshold_read_backwards() -> None:
    draw = np.random.default_rng(1)
    for n in (10, 99, 137):
        values = np.sort(draw.normal(size=n))
        conformal = Conformal({"tail": values, "head": values}, {})
        scored = np.concatenate([draw.normal(size=30), values[:5], [-9.0, 9.0]])
        entries = conformal.entry("tail", 0, scored)
        for coverage in np.arange(1, 100) / 100:
            inside = scored <= conformal.threshold("tail", 0, float(coverage))
            np.testing.assert_array_equal(entries < coverage, inside)


@pytest.mark.parametrize("side", ["head", "tail"])
def test_entries_hold_the_sets_of_every_coverage(run: sp.Run, side: str) -> None:
    given = {"relation": "ally", "tail" if side == "head" else "head": "p3"}
    entries = entry_coverages(run.predictor, run.conformal, sp.Query(**given))
    for coverage in (0.3, 0.5, 0.9, 0.95):
        found = run.prediction_set(**given, coverage=coverage)
        assert set(found[side]) == {run.graph.entities[i] for i in np.flatnonzero(entries < coverage)}
    with pytest.raises(InputError, match="open head or tail"):
        entry_coverages(run.predictor, run.conformal, sp.Query(head="p1", tail="p2"))


def test_exchangeable_answers_are_covered() -> None:
    """Held-out and new nonconformity from one distribution: sets hold the new one as often as promised."""
    draw, coverage, hits = np.random.default_rng(0), 0.8, []
    for _ in range(2000):
        values = np.sort(draw.normal(size=50))
        limit = Conformal({"tail": values}, {}).threshold("tail", 0, coverage)
        hits.append(draw.normal() <= limit)
    assert np.mean(hits) == pytest.approx(coverage + 0.5 / 51, abs=0.03)


def test_sets_measured_on_test_keep_the_promise(run: sp.Run) -> None:
    for coverage in (0.5, 0.9):
        report = run.measure_prediction_sets("test", coverage)
        n = report["both"]["queries"]
        margin = 4 * math.sqrt(coverage * (1 - coverage) / n) + 4 * math.sqrt(
            coverage * (1 - coverage) / len(run.graph.valid.facts)
        )
        assert report["both"]["coverage"] == pytest.approx(coverage, abs=margin)
    assert run.measure_prediction_sets("test", 0.5)["both"]["mean_size"] < report["both"]["mean_size"]
    assert report["tail"]["queries"] + report["head"]["queries"] == n


def test_a_set_is_what_measuring_counts(run: sp.Run) -> None:
    graph = run.graph
    known = set(map(tuple, graph.facts().tolist()))
    for h, r, t in graph.test.facts[:10].tolist():
        labels = graph.entities[h], graph.relations[r]
        found = run.prediction_set(*labels, coverage=0.9)
        names = set(found["tail"])
        asked = torch.tensor([[h, r, t]])
        scored = Nonconformity(run._scorer).of_all(asked, "tail")[0]
        limit = run.conformal.threshold("tail", r, 0.9)
        expected = {
            graph.entities[e] for e in range(len(graph.entities)) if scored[e] <= limit and (h, r, e) not in known
        }
        assert names == expected
    whole = run.prediction_set(*labels, coverage=0.999999)
    assert len(whole) > len(run.prediction_set(*labels, coverage=0.5))


def test_what_cannot_be_asked(run: sp.Run) -> None:
    with pytest.raises(InputError, match="open head or tail"):
        run.prediction_set(head="p0", tail="p1")
    with pytest.raises(InputError, match="at least 10"):
        Conformal.fit(run._scorer, run.graph.valid.facts[:3])


def test_the_command(run: sp.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    question = ["predict", str(tmp_path / "run"), "--head", "p0", "--relation", "ally", "--coverage", "0.9"]
    done = CliRunner().invoke(app, [*question, "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)) == len(run.prediction_set("p0", "ally", coverage=0.9))
    assert "new answers" in CliRunner().invoke(app, question).output
    wrong = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), "--similar", "p0", "--coverage", "0.9"])
    assert isinstance(wrong.exception, InputError)
