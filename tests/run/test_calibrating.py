"""`auto`: the calibrator that suits the objective and the labels there are."""

from __future__ import annotations

import dataclasses

import pytest

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import InputError
from staypositive.graph import Split
from staypositive.objectives import SecondMoment, StayPositive, second_moment
from staypositive.run.measuring import best_calibrator


def test_auto_goes_by_objective_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = planted_graph()
    facts = dataclasses.replace(labelled, valid=Split(labelled.valid.facts))
    few = dataclasses.replace(facts, valid=Split(facts.valid.facts[:20]))
    assert best_calibrator(labelled, StayPositive()) == "platt"
    assert best_calibrator(facts, StayPositive()) is None
    assert best_calibrator(facts, SecondMoment()) == "posterior"
    assert best_calibrator(few, SecondMoment()) is None
    monkeypatch.setattr(second_moment, "ENOUGH_LABELS", len(labelled.valid) + 1)
    assert best_calibrator(labelled, SecondMoment()) == "posterior"
    monkeypatch.setattr(second_moment, "ENOUGH_LABELS", len(labelled.valid))
    assert best_calibrator(labelled, SecondMoment()) == "null-logistic"


def test_a_run_takes_it() -> None:
    facts = planted_graph()
    facts = dataclasses.replace(facts, valid=Split(facts.valid.facts))
    run = sp.fit(facts, model="distmult", objective="second-moment", dim=4, epochs=1)
    assert run.calibrate() == {}
    assert run.calibrator is not None
    assert run.calibrator.name == "posterior"
    run = sp.fit(facts, model="distmult", dim=4, epochs=1)
    with pytest.raises(InputError, match="calibration needs validation triples labelled"):
        run.calibrate()
