"""Runs of one graph joined into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from graphs import encode
from staypositive.errors import InputError, SettingError
from staypositive.inference.statistics import score_statistics
from staypositive.reports import render_report
from staypositive.run.ensembles import choose_weights, joined_model
from staypositive.run.measuring import validation_measure

FAST: dict[str, Any] = {"objective": "second-moment", "epochs": 3, "batch_size": 128, "threads": 1}


@pytest.fixture(scope="module")
def runs() -> list[sp.Run]:
    graph = planted_graph()
    kinds = [("complex", 6), ("cp", 4), ("tucker", 4)]
    return [sp.fit(graph, model=model, dim=dim, seed=seed, **FAST) for seed, (model, dim) in enumerate(kinds)]


def test_joined_no_worse_on_validation_than_each(runs: list[sp.Run]) -> None:
    measure = validation_measure(runs[0].graph, None, "mrr")
    models, names = [run.model for run in runs], [run.settings.model for run in runs]
    told: list[int] = []
    choice = choose_weights(models, names, measure, told.append)
    assert choice.alone == pytest.approx([measure(model) for model in models], abs=3e-3)  # near-ties fall either way
    assert choice.value >= max(choice.alone)
    assert sum(choice.weights) == pytest.approx(1)
    assert choice.value == pytest.approx(measure(joined_model(models, names, choice)))
    assert len(told) >= 3


def test_a_joined_run_does_what_a_run_does(runs: list[sp.Run], tmp_path: Path) -> None:
    joined = sp.build_ensemble(runs, weights=[2, 1, 1])
    facts = torch.as_tensor(runs[0].graph.test.facts).T
    with torch.no_grad():
        expected = sum(w * run.model.score(*facts) for w, run in zip((0.5, 0.25, 0.25), runs, strict=True))
        torch.testing.assert_close(joined.model.score(*facts), expected)
    assert [member["weight"] for member in joined.provenance["members"]] == [0.5, 0.25, 0.25]
    joined.calibrate("posterior")
    joined.evaluate("test")
    again = sp.load_run(joined.save(tmp_path / "joined"))
    assert again.settings.model == "ensemble"
    assert again.provenance["members"][1]["settings"]["model"] == "cp"
    one, other = (run.predict(head="p0", relation="ally", top=5) for run in (joined, again))
    np.testing.assert_allclose(one["probability"], other["probability"], rtol=1e-6)
    assert len(again.prediction_set(head="p0", relation="ally", coverage=0.8)) > 0
    assert len(score_statistics(again.predictor)) == 3
    grown = again.with_entities([("even", "ally", "p0"), ("p2", "ally", "even"), ("even", "rival", "p5")])
    assert len(grown.predict(head="even", relation="ally", top=3)) == 3


def test_weights_by_what_the_posterior_expects(runs: list[sp.Run]) -> None:
    joined = sp.build_ensemble(runs[:2], choose="posterior")
    measure = validation_measure(runs[0].graph, None, "posterior")
    assert measure(joined.model) >= max(measure(run.model) for run in runs[:2]) - 1e-6
    assert joined.provenance["weights_chosen_by"] == "posterior"


def test_the_order_of_runs_says_nothing(runs: list[sp.Run]) -> None:
    graph, newcomers = runs[0].graph, [("even", "ally", "p0"), ("p2", "ally", "even")]
    strict = sp.fit(graph, model="complex", dim=6, seed=5, unobserved_weight=0.1, **FAST)
    for weights in ([1.0, 1.0], [1.0, 0.0], [0.0, 1.0]):
        one = sp.build_ensemble([runs[0], strict], weights=weights)
        other = sp.build_ensemble([strict, runs[0]], weights=weights[::-1])
        assert one.settings == other.settings
        scores = [run.with_entities(newcomers).predict("even", "ally", "p4")["score"].item() for run in (one, other)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    assert sp.build_ensemble([runs[0], strict], weights=[0, 1]).settings.objective == strict.settings.objective


def test_entities_that_lead_to_each_other_within_bounds(planted_run: sp.Run) -> None:
    chain = [("even", "ally", "p0"), ("p2", "ally", "even"), ("even", "rival", "p5"), ("next", "ally", "even")]
    assert planted_run.model.bound == "tanh"
    alone = planted_run.with_entities(chain)
    joined = sp.build_ensemble([planted_run, planted_run], weights=[1, 0]).with_entities(chain)
    torch.testing.assert_close(joined.model.entity_rows(), alone.model.entity_rows())


def test_what_a_joined_run_does_not_do_is_said(runs: list[sp.Run]) -> None:
    joined = sp.build_ensemble(runs, weights=[1, 1, 1])
    with pytest.raises(SettingError, match="start from one of its members"):
        sp.fit(runs[0].graph, model="complex", dim=6, start_from=joined, **FAST)
    points = sp.fit(runs[0].graph, model="transe", dim=4, **FAST)
    with pytest.raises(SettingError, match=r"transe's rows are formed from points.*join the other runs without it"):
        sp.build_ensemble([runs[0], points], weights=[1, 1]).with_entities([("even", "ally", "p0")])


def test_weights_of_any_kind_and_size(runs: list[sp.Run], tmp_path: Path) -> None:
    joined = sp.build_ensemble(runs, weights=np.array([1e308, 1e308, 0], dtype=np.float64))
    assert [member["weight"] for member in joined.provenance["members"]] == [0.5, 0.5, 0]
    joined = sp.build_ensemble(runs, weights=np.array([0.5, 0.25, 0.25], dtype=np.float32))
    assert sp.load_run(joined.save(tmp_path / "joined")).provenance == joined.provenance


def test_the_report_tells_how_to_make_it_again(runs: list[sp.Run]) -> None:
    page = render_report(sp.build_ensemble(runs, weights=[2, 1, 1], backward_weight=0.3))
    assert "an ensemble of 3 runs" in page
    assert "staypositive train planted --model cp --objective second-moment --dim 4" in page
    assert (
        "staypositive ensemble runs/member-0 runs/member-1 runs/member-2 "
        "--weights 0.5,0.25,0.25 --backward-weight 0.3" in page
    )
    assert "--model ensemble" not in page
    assert "trained apart" in page


@pytest.mark.parametrize("members", [None, 3, [3], [{}], [{"weight": "x"}]])
def test_the_report_of_a_run_whose_origin_is_forged(runs: list[sp.Run], members: Any) -> None:
    joined = sp.build_ensemble(runs[:2])
    joined.provenance |= {"members": members, "validation": members}
    assert "staypositive ensemble" not in render_report(joined)


def test_a_member_that_does_not_help_is_left_out(runs: list[sp.Run]) -> None:
    joined = sp.build_ensemble(runs, weights=[1, 0, 3])
    assert [member["model"] for member in joined.model.settings()["members"]] == ["complex", "tucker"]


@pytest.mark.parametrize(
    ("weights", "said"),
    [([1.0], "3 runs and 1 weights"), ([1.0, -1.0, 1.0], "from 0"), ([0, 0, 0], "not all of them 0")],
)
def test_weights_that_mean_nothing(runs: list[sp.Run], weights: list[float], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        sp.build_ensemble(runs, weights=weights)


def test_runs_that_do_not_belong_together(runs: list[sp.Run]) -> None:
    with pytest.raises(InputError, match="two runs or more"):
        sp.build_ensemble(runs[:1])
    with pytest.raises(SettingError, match="mrr or posterior"):
        sp.build_ensemble(runs, choose="nll")
    with pytest.raises(SettingError, match="give both or neither"):
        sp.build_ensemble(runs, backward_weight=0.3)
    with pytest.raises(SettingError, match="must lie in"):
        sp.build_ensemble(runs, weights=[1, 1, 1], backward_weight=-1.0)
    with pytest.raises(SettingError, match="at least one validation fact"):
        sp.build_ensemble(runs, most_facts=0)
    one_way = sp.fit(runs[0].graph, model="cp", dim=4, reciprocal=False, **FAST)
    with pytest.raises(InputError, match="reciprocal relations cannot be joined"):
        sp.build_ensemble([runs[0], one_way])
    elsewhere = sp.fit(planted_graph(seed=1), model="cp", dim=4, **FAST)
    with pytest.raises(InputError, match="with other facts"):
        sp.build_ensemble([runs[0], elsewhere])
    otherwise = sp.fit(runs[0].graph, model="cp", dim=4, epochs=1)
    with pytest.raises(InputError, match="same objective"):
        sp.build_ensemble([runs[0], otherwise])
    with pytest.raises(SettingError, match="cannot be a member"):
        sp.build_ensemble([sp.build_ensemble(runs, weights=[1, 1, 1]), runs[0]], weights=[1, 1])
    with pytest.raises(SettingError, match="staypositive ensemble"):
        sp.fit(runs[0].graph, model="ensemble")


def test_the_name_of_ensembles_in_older_runs_is_still_read() -> None:
    assert sp.Settings.from_dict(sp.Settings().as_dict() | {"model": "joined"}).model == "ensemble"


def test_no_validation_facts_no_choice() -> None:
    facts = {
        "train": (("a", "b", "c"), ("r", "r", "r"), ("b", "c", "a")),
        "valid": ((), (), ()),
        "test": ((), (), ()),
    }
    graph = encode("bare", facts, dict.fromkeys(facts))
    bare = [sp.fit(graph, model="distmult", dim=2, seed=seed, **FAST) for seed in range(2)]
    with pytest.raises(InputError, match="give the weights"):
        sp.build_ensemble(bare)
    assert sp.build_ensemble(bare, weights=[1, 1]).model.dim == 4
