"""`auto`: the calibrator that suits the objective, where there are labels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import InputError
from staypositive.graph import Split
from staypositive.objectives import SecondMoment, StayPositive
from staypositive.run.measuring import best_calibrator


def test_auto_goes_by_objective_and_labels() -> None:
    labelled = planted_graph()
    facts = dataclasses.replace(labelled, valid=Split(labelled.valid.facts))
    assert best_calibrator(labelled, StayPositive()) == "platt"
    assert best_calibrator(facts, StayPositive()) is None
    assert best_calibrator(facts, SecondMoment()) is None
    assert best_calibrator(labelled, SecondMoment()) == "labelled"
    assert best_calibrator(planted_graph(16), SecondMoment()) == "platt"  # too few facts for a posterior


def test_a_run_takes_it() -> None:
    facts = planted_graph()
    facts = dataclasses.replace(facts, valid=Split(facts.valid.facts))
    run = sp.fit(facts, model="distmult", objective="second-moment", dim=4, epochs=1)
    assert set(run.calibrate()) == {"completeness", "missing"}
    assert run.calibrator is None
    labelled = sp.Run(planted_graph(), run.model, run.settings, run.history, run.best_epoch, run.provenance)
    assert set(labelled.calibrate()) == {"completeness", "missing", "nll_before", "nll_after"}
    assert labelled.calibrator is not None
    assert labelled.calibrator.name == best_calibrator(labelled.graph, SecondMoment())


def test_labels_alone_suit_a_calibrator_of_labels() -> None:
    """Too few validation facts for probabilities of unknown triples: scores, the reason, and the best by score."""
    graph = planted_graph(16)
    assert len(graph.valid.facts) < 50
    run = sp.fit(graph, model="distmult", dim=4, epochs=1)
    assert set(run.calibrate("platt")) == {"nll_before", "nll_after"}
    assert run.posterior is None
    reason = f"they need 50 validation facts that are not training facts, and there are {len(graph.valid.facts)}"
    assert run.why_no_probability() == reason
    assert list(run.predict("p0", "ally")) == ["tail", "score", "known"]
    with pytest.raises(InputError, match=f"there are no probabilities, only scores: {reason}"):
        run.predict_proba([("p0", "ally", "p2")])
    assert 0 < run.predict_proba([("p0", "ally", "p2")], like_labelled=True)[0] < 1
    assert list(run.discover(top=4)) == ["head", "relation", "tail", "score"]
    assert list(run.stats()) == ["relation", "facts", "mean", "std"]
    done = run.finish()
    assert set(done["metrics"]["test"]) == {"ranking", "classification"}
    plain = dataclasses.replace(graph, valid=Split(graph.valid.facts), test=Split(graph.test.facts))
    bare = sp.Run(plain, run.model, run.settings, run.history, run.best_epoch, run.provenance)
    with pytest.raises(InputError, match=f"there is nothing to calibrate: .*: {reason}"):
        bare.calibrate()
    assert set(bare.finish()["metrics"]["test"]) == {"ranking"}


def test_judgements_move_probabilities_and_are_kept(incomplete_run: sp.Run, tmp_path: Path) -> None:
    """Triples that were found false get less likely; without judgements all is as before."""
    run = dataclasses.replace(incomplete_run)
    proposed = run.discover(top=12, min_probability=0.01)[["head", "relation", "tail"]]
    before = run.predict_proba(proposed)
    run.judge(proposed, [False] * len(proposed))
    after = run.predict_proba(proposed)
    assert after.mean() < before.mean()
    run.save(tmp_path / "run")
    np.testing.assert_allclose(sp.load_run(tmp_path / "run").predict_proba(proposed), after)
    run.judge([], [])
    np.testing.assert_array_equal(run.predict_proba(proposed), before)
    with pytest.raises(InputError, match="one label per triple"):
        run.judge(proposed, [True])
