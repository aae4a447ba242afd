"""`fit` end to end on a planted graph whose right answers are known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import staypositive as sp
from conftest import ladder_graph
from staypositive.errors import DivergedError, InputError, SettingError
from staypositive.graph import Split
from staypositive.models import Scorer
from staypositive.objectives import StayPositive
from staypositive.probability import NullDistribution, Posterior


def test_a_planted_graph_is_recovered(planted_run: sp.Run) -> None:
    report = planted_run.evaluate("test")
    assert report["classification"]["all"]["uncalibrated"]["auc"] > 0.97
    assert report["ranking"]["filtered"]["realistic"]["both"]["amri"] > 0.8
    allies = planted_run.predict(head="p0", relation="ally", top=15)
    assert all(int(label[1:]) % 2 == 0 for label in allies["tail"])
    assert planted_run.similar("p0", top=5)["entity"].map(lambda label: int(label[1:]) % 2).sum() == 0
    assert set(report["ranking"]["relations"]) == {"ally", "rival"}


@pytest.mark.parametrize("objective", sorted(sp.OBJECTIVES))
def test_every_objective_learns(planted: sp.KnowledgeGraph, objective: str) -> None:
    run = sp.fit(planted, model="complex", objective=objective, dim=8, epochs=40, batch_size=64, learning_rate=0.5)
    assert run.evaluate("test")["classification"]["all"]["uncalibrated"]["auc"] > 0.9


def test_every_model_learns(planted: sp.KnowledgeGraph, model_name: str) -> None:
    # No translation leads from either of two houses to the other and never within: h + r = t and t + r = h make r 0.
    graph = ladder_graph() if model_name == "transe" else planted
    run = sp.fit(graph, model=model_name, dim=8, epochs=40, batch_size=64, learning_rate=0.5, dropout=0.1)
    bar = 0.8 if model_name == "transe" else 0.9  # the mean alone shapes a cloud of points loosely
    assert run.evaluate("test")["classification"]["all"]["uncalibrated"]["auc"] > bar


@pytest.mark.parametrize(("model", "widths"), [("tucker", (5, 3)), ("transe", (7, 6))])
def test_formed_rows_and_shared_tables_survive_a_save(
    planted: sp.KnowledgeGraph, tmp_path: Path, model: str, widths: tuple[int, int]
) -> None:
    slices = {"slices": 3} if model == "tucker" else {}
    run = sp.fit(planted, model=model, dim=5, epochs=2, optimiser="adam", **slices)
    assert (run.model.entity_rows().shape[1], run.model.relation_width()) == widths
    again = sp.load_run(run.save(tmp_path / "run"))
    pd.testing.assert_frame_equal(again.predict(head="p0", relation="ally"), run.predict(head="p0", relation="ally"))
    assert again.evaluate("test") == run.evaluate("test")


def test_a_seed_gives_the_same_run_twice(planted: sp.KnowledgeGraph) -> None:
    def once(seed: int, **changes: object) -> sp.Run:
        return sp.fit(planted, model="simple", dim=6, epochs=3, seed=seed, dropout=0.3, batch_size=50, **changes)

    first, again, other = once(1), once(1), once(2)
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
        assert not torch.equal(weight, other.model.state_dict()[name])
    assert [r.terms for r in first.history] == [r.terms for r in again.history]
    drawn = [once(3, objective="negative-sampling", negatives=2).model.entities for _ in range(2)]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("changes", [{"optimiser": "adagrad-rowwise"}, {"precision": "bfloat16"}])
def test_lighter_state_learns_too(planted: sp.KnowledgeGraph, changes: dict[str, str]) -> None:
    run = sp.fit(planted, model="simple", dim=8, epochs=40, batch_size=64, learning_rate=0.5, **changes)
    assert run.evaluate("test")["classification"]["all"]["uncalibrated"]["auc"] > 0.9
    assert run.model.entities.dtype == torch.float32


def test_stay_positive_holds_the_mean_score_at_zero(planted: sp.KnowledgeGraph) -> None:
    held = sp.fit(planted, model="distmult", dim=8, epochs=30, prior=0.2, penalty_weight=1.0, weighting="paper")
    free = sp.fit(planted, model="distmult", dim=8, epochs=30, prior=0.2, penalty_weight=0.0)
    assert abs(held.history[-1].mean_score) < 0.1 < free.history[-1].mean_score
    assert held.model.prior_score == pytest.approx(math.log(0.25))


def test_monitor_follows_the_data_or_the_wish(planted: sp.KnowledgeGraph) -> None:
    by_nll = sp.fit(planted, model="simple", dim=4, epochs=2, validate_every=1)
    assert set(by_nll.history[0].validation) == {"nll"}
    by_mrr = sp.fit(planted, model="simple", dim=4, epochs=2, validate_every=1, monitor="mrr")
    assert set(by_mrr.history[0].validation) == {"mrr"}
    no_log_odds = sp.fit(planted, dim=4, epochs=1, objective="second-moment")
    assert set(no_log_odds.history[0].validation) == {"mrr"}
    facts_alone = sp.KnowledgeGraph(
        "facts",
        planted.entities,
        planted.relations,
        planted.train,
        Split(planted.valid.facts),
        Split(planted.test.facts),
    )
    assert set(sp.fit(facts_alone, dim=4, epochs=1).history[0].validation) == {"mrr"}
    with pytest.raises(SettingError, match="use mrr"):
        sp.fit(facts_alone, dim=4, epochs=1, monitor="nll")
    with pytest.raises(InputError, match="labelled false"):
        sp.fit(facts_alone, model="simple", dim=4, epochs=1).calibrate("platt")
    train_alone = sp.KnowledgeGraph(
        "t", planted.entities, planted.relations, planted.train, Split(np.empty((0, 3))), Split(np.empty((0, 3)))
    )
    run = sp.fit(train_alone, dim=4, epochs=2)
    assert (run.best_epoch, run.history[-1].validation) == (2, {})
    with pytest.raises(InputError, match="empty"):
        run.evaluate("test")


def test_epochs_by_what_the_posterior_expects(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    chosen = {"model": "complex", "objective": "second-moment", "dim": 6, "batch_size": 64, "validate_every": 1}
    run = sp.fit(planted, epochs=4, monitor="posterior", **chosen)
    looked = [record.validation["posterior"] for record in run.history]
    assert run.best_epoch == 1 + int(np.argmin(looked))
    run.save(tmp_path / "run")
    assert sp.load_run(tmp_path / "run").history == run.history
    background = NullDistribution(planted, Scorer(run.model))
    facts = planted.valid.facts
    expected = Posterior.expected_losses(background.features(facts), background.candidates_in_range(facts))
    assert min(looked) == pytest.approx(min(expected.values()), rel=1e-5)
    few = replace(planted, valid=Split(planted.valid.facts[:20]))
    with pytest.raises(SettingError, match="needs 50 validation facts, and there are 20"):
        sp.fit(few, epochs=1, monitor="posterior", **chosen)


class Overflowing(StayPositive):
    """Finite at first; infinite once the entities have moved."""

    def terms(self, model, batch):
        terms = super().terms(model, batch)
        blown = torch.where(model.entities[0, 0].detach() != self.start, math.inf, 0.0) if self.start else 0.0
        object.__setattr__(self, "start", self.start or float(model.entities[0, 0].detach()))
        return {**terms, "facts": terms["facts"] + blown}

    start = 0.0


def test_divergence_keeps_the_run(planted: sp.KnowledgeGraph) -> None:
    with pytest.raises(DivergedError, match="smaller learning rate") as caught:
        sp.fit(planted, objective=Overflowing(), dim=4, epochs=5, batch_size=10**6)
    run = caught.value.run
    assert isinstance(run, sp.Run)
    assert len(run.history) == 1
    assert all(torch.isfinite(weight).all() for weight in run.model.state_dict().values())
    assert len(run.predict("p0", "ally")) == 10


def test_a_huge_learning_rate_without_bound_diverges_with_advice(planted: sp.KnowledgeGraph) -> None:
    with pytest.raises(DivergedError, match="smaller learning rate"):
        sp.fit(planted, bound="identity", learning_rate=1e30, dim=4, epochs=5)


def test_settings_reach_the_model(planted: sp.KnowledgeGraph) -> None:
    run = sp.fit(planted, model="ntn", slices=2, dim=3, epochs=1, closed_world="literal", threads=1, optimiser="adam")
    facts, entities = len(planted.train), len(planted.entities)
    assert run.model.prior_score == pytest.approx(facts / (entities**2 * 2))
    assert run.model.settings()["slices"] == 2
    assert run.model.bound == "tanh"
    assert sp.fit(planted, objective="1vsall", dim=2, epochs=1).model.bound == "identity"
    assert "ntn on planted by stay-positive, best epoch 1 of 1, probabilities none" in repr(run)


def test_bad_settings() -> None:
    graph = sp.load_graph("geo")
    for changes, message in [
        ({"model": "rotate"}, "model is one of"),
        ({"epoch": 3}, "Did you mean 'epochs'"),
        ({"negatives": 3}, "negatives applies to the objective negative-sampling; here objective is second-moment"),
        ({"objective": "1vsall", "margin": 1.0}, "1vsall has no option 'margin'; it has l2, n3, reciprocal"),
        ({"objective": StayPositive(), "power": 2}, "objective itself"),
        ({"device": "abacus"}, "expected a device"),
        ({"accumulator": -1.0}, "accumulator"),
        ({"threads": 0}, "threads"),
    ]:
        with pytest.raises(SettingError, match=message):
            sp.fit(graph, **changes)
    with pytest.raises(SettingError, match="either"):
        sp.fit(graph, sp.Settings(), dim=3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_where_there_is_none(planted: sp.KnowledgeGraph) -> None:
    with pytest.raises(SettingError, match="no CUDA device"):
        sp.fit(planted, device="cuda")


def test_settings_survive_json() -> None:
    settings = sp.make_settings(model="simple", objective="negative-sampling", negatives=7, dim=12, prior=0.3)
    assert sp.Settings.from_dict(settings.as_dict()) == settings


def test_progress_and_callbacks(planted: sp.KnowledgeGraph, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    class Watch(sp.Callback):
        def on_epoch(self, record: sp.EpochRecord) -> None:
            seen.append(record.epoch)

    sp.fit(planted, dim=2, epochs=2, callbacks=[Watch()], progress=True)
    assert seen == [1, 2]
    assert "2/2" in capsys.readouterr().err
