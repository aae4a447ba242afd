"""Many runs at once, the two rounds of the search, kept results and the commands around them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from experiments.__main__ import app
from experiments.artifacts import Artifact, background_artifact, result_artifact
from experiments.context import ExperimentContext, own_command
from experiments.paper.ablations import (
    ScorerWithDropout,
    Variant,
    ablate,
    mean_reached,
    missing_variants,
    variants,
)
from experiments.paper.figure1 import density, plot_figure1, reliability
from experiments.paper.packed_runs import Schedule, beyond_best, train_runs
from experiments.paper.paper import Cell, Paper, load_paper
from experiments.paper.table2 import (
    best_places,
    chosen_records,
    decide,
    read_records,
    rerun,
    search,
    write_records,
)
from experiments.store import OF_FIGURE, add_rows, read_results
from staypositive.errors import DataError, InputError
from staypositive.graph import Split
from staypositive.models import Scorer
from staypositive.run.fitting import new_model
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import make_settings

CPU = torch.device("cpu")


@pytest.fixture
def paper() -> Paper:
    """The paper with few epochs, two settings a grid and two seeds."""
    whole = load_paper()
    rule = dataclasses.replace(
        whole.rule, epochs=6, validate_every=3, finalists=2, final_epochs=8, final_validate_every=4, seeds=(0, 1),
        batches=6,
    )  # fmt: skip
    grids = {
        "stay-positive": {"learning_rate": [0.5, 1e-4], "dim": [8], "prior_score": [0.0]},
        "negative-sampling": {"learning_rate": [0.5], "l2": [0.001], "dim": [8], "negatives": [2]},
        "subset": {"learning_rate": [0.5], "dim": [4]},
    }
    return dataclasses.replace(whole, rule=rule, grids=grids, own_rules={})


def ranked_graph() -> sp.KnowledgeGraph:
    """The planted graph without false triples: to be ranked."""
    graph = planted_graph()
    splits = {name: Split(graph.split(name).facts) for name in ("valid", "test")}
    return dataclasses.replace(graph, **splits)


def test_many_runs_equal_single_runs() -> None:
    graph = planted_graph()
    settings = [make_settings(model="simple", dim=6, learning_rate=rate, batch_size=64) for rate in (0.1, 0.5)]
    told: list[int] = []
    outcomes = train_runs(graph, settings, Schedule(6, 3), validation_measure(graph), CPU, told.append)
    assert sum(told) == 12
    for one, outcome in zip(settings, outcomes, strict=True):
        run = sp.fit(graph, dataclasses.replace(one, epochs=6, validate_every=3))
        assert torch.equal(run.model.entities, outcome.model.entities)
        assert -outcome.best_value == pytest.approx(min(r.validation["nll"] for r in run.history if r.validation))
        assert [epoch for epoch, _ in outcome.curve] == [3, 6]


def test_facts_that_weigh_differently_are_refused() -> None:
    graph = planted_graph()
    weighed = dataclasses.replace(graph, train=Split(graph.train.triples, weights=np.ones(len(graph.train))))
    with pytest.raises(InputError, match="weighs its facts by a confidence"):
        train_runs(weighed, [make_settings(dim=4)], Schedule(1, 1), validation_measure(graph), CPU)


def test_a_run_that_does_not_gain_stops_and_keeps_its_best() -> None:
    graph, seen = planted_graph(), []
    values = iter([1.0, 1.0005, 1.0004, 5.0, 6.0, 7.0])

    def measure(model: object) -> float:
        seen.append(1)
        return next(values)

    settings = [make_settings(model="distmult", dim=4, batch_size=64)]
    told: list[int] = []
    schedule = Schedule(6, 1, patience=2, min_gain=0.001)
    (outcome,) = train_runs(graph, settings, schedule, measure, CPU, told.append)
    assert (outcome.epochs, outcome.best_epoch, outcome.best_value) == (3, 2, 1.0005)
    assert sum(told) == 6  # what is skipped is done with


def test_only_the_best_share_goes_on() -> None:
    active: list[Any] = [SimpleNamespace(best_value=value, stopped="") for value in (1.0, 3.0, 2.0, 0.0)]
    assert beyond_best(active, 2) == [0, 3]
    active[1].stopped = active[2].stopped = "patience"
    assert beyond_best(active, 1) == [3]
    graph = planted_graph()
    schedule = Schedule(4, 1, halvings=((2, 0.25),))
    (outcome,) = train_runs(graph, [make_settings(dim=4, batch_size=64)], schedule, validation_measure(graph), CPU)
    assert outcome.epochs == 4  # alone, it is the best


def test_a_run_that_diverges_is_marked() -> None:
    graph = planted_graph()
    settings = make_settings(
        model="distmult", objective="negative-sampling", dim=4, learning_rate=1e30, batch_size=64, init_scale=1e15
    )
    (outcome,) = train_runs(graph, [settings], Schedule(3, 1), validation_measure(graph), CPU)
    assert outcome.diverged or outcome.best_value == -math.inf
    records = [{"metric": "nll", "value": text} for text in ("0.7", "inf", "nan", "0.5")]
    assert best_places(records, 2) == [3, 0]
    assert best_places([{"metric": "mrr", "value": text} for text in ("0.1", "0.4")], 1) == [1]


def test_mrr_of_some_facts_and_of_all() -> None:
    graph = ranked_graph()
    model = sp.fit(graph, model="complex", dim=4, epochs=2).model
    some, whole = validation_measure(graph, 5)(model), validation_measure(graph)(model)
    assert 0 < some <= 1
    assert 0 < whole <= 1
    assert some != whole


def test_a_choice_by_mrr_where_there_are_labels(tmp_path: Path, paper: Paper) -> None:
    graph, cell = planted_graph(), paper.cells(["spDistMult"], ["WN11"])[0]
    context = ExperimentContext(
        tmp_path, CPU, "python -m experiments reproduce table2 --by-mrr", "abc", "table2_by_mrr"
    )
    records = search(paper.choosing_by_mrr(), cell, graph, context)
    assert {record["metric"] for record in records} == {"mrr"}
    assert all(0 < float(record["value"]) <= 1 for record in records)
    kept = decide(paper.choosing_by_mrr(), cell, graph, context, records)
    assert kept[0].kind == "classification"


def test_a_search_goes_on_where_it_stopped(tmp_path: Path, paper: Paper) -> None:
    graph, cell = planted_graph(), paper.cells(["spDistMult"], ["WN11"])[0]
    context = ExperimentContext(tmp_path, CPU, "python -m experiments reproduce table2", "abc")
    whole = search(paper, cell, graph, context)
    write_records(context, "grid", cell.slug, [{**whole[1], "seconds": "77"}])
    again = search(paper, cell, graph, context)
    assert again[1]["seconds"] == "77"  # not trained again
    assert again[0]["value"] == whole[0]["value"]
    assert read_records(context, "grid", cell.slug) == again


@pytest.mark.parametrize("ranked", [False, True])
def test_both_rounds(tmp_path: Path, paper: Paper, ranked: bool) -> None:
    graph = ranked_graph() if ranked else planted_graph()
    cell = paper.cells(["spDistMult"], ["WN18AM" if ranked else "WN11"])[0]
    context = ExperimentContext(tmp_path, CPU, "a command", "a commit")
    records = search(paper, cell, graph, context)
    assert [record["learning_rate"] for record in records] == ["0.5", "0.0001"]
    assert read_records(context, "grid", cell.slug) == records
    assert search(paper, cell, graph, context) == records  # read, not trained again
    kept = decide(paper, cell, graph, context, records)
    assert [one.about["seed"] for one in kept] == [0, 1]
    assert kept[0].about["setting"].startswith("lr 0.5")
    assert (kept[0].about["negatives_drawn"], kept[0].about["commit"]) == (0, "a commit")
    again = decide(paper, cell, graph, context, records)
    assert again[1].rows() == kept[1].rows()
    chosen = chosen_records(paper, cell, context)
    assert [record["seed"] for record in chosen] == ["0", "1"]
    repeated = rerun(paper, cell, graph, context, chosen[1])
    for name, array in kept[1].arrays.items():
        np.testing.assert_array_equal(repeated.arrays[name], array)


def test_kept_results_give_what_evaluate_gives(tmp_path: Path) -> None:
    for graph in (planted_graph(), ranked_graph()):
        run = sp.fit(graph, model="complex", dim=8, epochs=10, batch_size=64, learning_rate=0.5)
        kept = result_artifact(graph, run.model, {"seed": 0})
        kept.write(tmp_path / "x.xz")
        rows = Artifact.read(tmp_path / "x.xz").rows("artifacts/x.xz")
        assert rows == kept.rows("artifacts/x.xz")
        report = run.evaluate("test")
        if kept.kind == "ranking":
            for row in rows:
                expected = report["ranking"][row["filter"]][row["ties"]][row["side"]][row["metric"]]
                assert row["value"] == pytest.approx(expected)
        else:
            run.calibrate("platt")
            report = run.evaluate("test")["classification"]["all"]
            for row in rows:
                if row["calibration"] in report:
                    plain = row["metric"].removesuffix("_platt")
                    assert row["value"] == pytest.approx(report[row["calibration"]][plain], rel=1e-4)


@pytest.mark.parametrize("way", ["posterior", "platt", "null-logistic"])
def test_kept_backgrounds_give_what_evaluate_gives(tmp_path: Path, way: str) -> None:
    graph = planted_graph()
    run = sp.fit(graph, model="complex", objective="second-moment", dim=6, epochs=30, batch_size=64, init_scale=0.5)
    path = tmp_path / "kept.xz"
    background_artifact(graph, run.model, {"experiment": "x"}).write(path)
    kept = Artifact.read(path)
    assert kept.kind == "background"
    found = {row["metric"]: row["value"] for row in kept.rows() if row["calibration"] == way}
    run.calibrate(way)
    expected = run.evaluate("test", ranking=False)["classification"]["all"][way]
    for metric in ("nll", "brier", "ece", "auc", "accuracy_relation_thresholds"):
        assert found[metric] == pytest.approx(expected[metric], abs=2e-3)  # kept in 32 bits


def test_a_damaged_kept_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.xz"
    path.write_bytes(b"PK\x03\x04 not a file of arrays")
    with pytest.raises(DataError, match=r"bad\.xz: not an artifact"):
        Artifact.read(path)


def of_groups(paper: Paper, cell: Cell, *groups: str) -> list[Variant]:
    return [variant for variant in variants(paper, cell) if variant.group in groups]


def test_ablations_and_the_means_reached(tmp_path: Path, paper: Paper) -> None:
    graph, cell = planted_graph(), paper.cells(["spDistMult"], ["WN11"])[0]
    context = ExperimentContext(tmp_path, CPU, "a command", "")
    with pytest.raises(InputError, match="no chosen setting yet"):
        ablate(paper, cell, graph, dataclasses.replace(context, experiment="ablations"), variants(paper, cell))
    decide(paper, cell, graph, context, search(paper, cell, graph, context))
    wanted = of_groups(paper, cell, "power", "closed world")
    rows = ablate(paper, cell, graph, dataclasses.replace(context, experiment="ablations"), wanted)
    add_rows(tmp_path, [row | {"dataset": cell.dataset} for row in rows])
    missing = missing_variants(paper, cell, read_results(tmp_path))
    assert len(missing) == len(variants(paper, cell)) - 4
    assert not {variant.name for variant in missing} & {variant.name for variant in wanted}
    assert missing_variants(paper, cell, [])[0] == variants(paper, cell)[0]
    assert {row["setting"].partition(";")[0] for row in rows} == {
        "power: power 1", "power: power 2", "closed world: closed_world literal", "closed world: closed_world logit",
    }  # fmt: skip
    assert {row["metric"] for row in rows} >= {"mean_logit", "mean_probability", "nll", "auc"}
    model = sp.fit(graph, model="distmult", dim=4, epochs=1, prior_score=-2.0).model
    grid = torch.cartesian_prod(*(torch.arange(n) for n in (model.n_entities, model.n_relations, model.n_entities)))
    with torch.no_grad():
        logits = Scorer(model).triples(*grid.T) - 2.0
    means = mean_reached(model)
    assert means["mean_logit"] == pytest.approx(float(logits.mean()), rel=1e-3)
    assert means["mean_probability"] == pytest.approx(float(torch.sigmoid(logits).mean()), abs=3e-3)


def test_choosing_by_what_the_posterior_expects() -> None:
    graph = planted_graph()
    measure = validation_measure(graph, monitor="posterior")
    settings = make_settings(model="complex", objective="second-moment", dim=8, epochs=5, batch_size=64)
    start, trained = new_model(graph, settings), sp.fit(graph, settings).model
    facts_alone = dataclasses.replace(graph, valid=Split(graph.valid.facts))
    assert -math.log(2) - 0.1 < measure(start) < measure(trained) < 0
    assert validation_measure(facts_alone, monitor="posterior")(trained) == measure(trained)


def test_variants_that_change_nothing_train_once(
    tmp_path: Path, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, cell, trained = planted_graph(), paper.cells(["spDistMult"], ["WN11"])[0], []
    context = ExperimentContext(tmp_path, CPU, "a command", "")
    decide(paper, cell, graph, context, search(paper, cell, graph, context))

    def counted(graph: Any, settings: Any, *rest: Any) -> Any:
        trained.extend(settings)
        return train_runs(graph, settings, *rest)

    monkeypatch.setattr("experiments.paper.ablations.train_runs", counted)
    wanted = of_groups(paper, cell, "power", "bound")
    rows = ablate(paper, cell, graph, dataclasses.replace(context, experiment="ablations"), wanted)
    seeds = len(paper.rule_of_ablations(cell).seeds)
    assert len(trained) == len(set(trained)) == 3 * seeds  # the chosen setting, its square, its rows unbound
    nll = {row["setting"].partition(";")[0]: row["value"] for row in rows if row["metric"] == "nll"}
    assert nll["power: power 1"] == nll["bound: bound tanh"] != nll["power: power 2"]


def test_scores_with_dropout_left_on() -> None:
    model = sp.fit(planted_graph(), model="simple", dim=4, epochs=1, dropout=0.5).model
    heads, relations, tails = torch.tensor([[0, 1], [0, 1], [2, 3]])
    plain, dropped = Scorer(model), ScorerWithDropout(model)
    for found, expected in (
        (dropped.tails(heads, relations), plain.tails(heads, relations)),
        (dropped.heads(relations, tails), plain.heads(relations, tails)),
    ):
        assert found.shape == expected.shape
        assert not torch.allclose(found, expected)
    model.dropout = 0.0
    torch.testing.assert_close(dropped.heads(relations, tails), plain.heads(relations, tails))
    assert not model.training


def test_reliability_and_density(tmp_path: Path) -> None:
    probabilities = np.array([0.05, 0.1, 0.95, 0.9, 0.92])
    stated, observed, counts = reliability(probabilities, np.array([False, True, True, True, False]), bins=2)
    np.testing.assert_allclose(stated, [0.075, np.mean([0.95, 0.9, 0.92])])
    np.testing.assert_allclose(observed, [0.5, 2 / 3])
    assert counts.tolist() == [2, 3]
    grid = np.linspace(0, 1, 2001)
    assert np.trapezoid(density(probabilities, grid), grid) == pytest.approx(1, abs=0.02)
    assert density(np.full(5, 0.3), grid).sum() == 0
    pytest.importorskip("matplotlib")
    graph = planted_graph()
    kept = result_artifact(graph, sp.fit(graph, model="distmult", dim=4, epochs=2).model, {})
    plot_figure1("planted", [("spDistMult", kept)], tmp_path / "figures" / "one.png")
    assert (tmp_path / "figures" / "one.png").stat().st_size > 5000


@pytest.fixture
def in_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paper: Paper) -> Path:
    """A folder to run commands in, where every dataset is the planted graph."""
    quick = {**paper.quick, "epochs": 4, "validate_every": 2}
    quick |= {name: {**paper.grids[name]} for name in paper.grids}
    small = dataclasses.replace(paper, quick=quick)
    monkeypatch.setattr("experiments.paper.command.load_paper", lambda: small)
    monkeypatch.setattr("experiments.paper.command.load", lambda name, graphs: planted_graph())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_commands_reproduce_collect_and_check(in_lab: Path) -> None:
    plan = call("reproduce", "all", "--dry-run")
    for word in ("table2", "figure1", "figure2", "table1", "ablations", "theorems", "to do"):
        assert word in plan
    assert not (in_lab / "results").exists()
    cell = ("--rows", "spDistMult,DistMult", "--datasets", "WN11")
    shown = call("reproduce", "table2", *cell, "--device", "cpu")
    assert "nll_platt" in shown
    rows = read_results(in_lab / "results")
    assert {row["negatives_drawn"] for row in rows if row["objective"] == "stay-positive"} == {"0"}
    assert {row["published"] for row in rows if row["metric"] == "nll" and row["objective"] == "stay-positive"} == {
        "0.62"
    }
    assert "done" in call("reproduce", "table2", *cell, "--dry-run")
    call("results", "check")
    call("results", "collect")
    assert read_results(in_lab / "results") == rows
    found = json.loads(
        call("reproduce", "table2", "--rows", "spDistMult", "--datasets", "WN11", "--chosen", "--json")
    )
    own = [float(r["value"]) for r in rows if r["metric"] == "auc" and r["seed"] == "0" and r["model"] == "distmult"]
    assert next(f["ours"] for f in found if f["metric"] == "auc") in [pytest.approx(value, rel=1e-5) for value in own]
    call("reproduce", "ablations", "--rows", "DistMult", "--datasets", "WN11", "--device", "cpu")
    assert any(row["experiment"] == "ablations" for row in read_results(in_lab / "results"))


def test_check_finds_a_changed_figure_and_a_missing_one(in_lab: Path) -> None:
    call("reproduce", "table2", "--rows", "spDistMult", "--datasets", "WN11", "--device", "cpu", "-q")
    index = in_lab / "results" / "figures.csv"
    good = index.read_text("utf-8")
    line = next(text for text in good.splitlines() if ",accuracy," in text)
    *place, _, unit, published, source = line.split(",")
    index.write_text(good.replace(line, ",".join([*place, "0.999", unit, published, source])), "utf-8")
    assert "0.999" in call("results", "check", code=1)
    index.write_text("\n".join(text for text in good.splitlines() if not of_seed(text, "1")) + "\n", "utf-8")
    assert "has no figures in the results" in call("results", "check", code=1)


def of_seed(line: str, seed: str) -> bool:
    return line.split(",")[OF_FIGURE.index("seed")] == seed


def test_quick_says_so(in_lab: Path) -> None:
    call("reproduce", "table2", "--quick", "--rows", "spSimplE", "--datasets", "FB13", "--device", "cpu", "-q")
    assert {row["experiment"] for row in read_results(in_lab / "results")} == {"table2-quick"}


def test_timed_parts(in_lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("experiments.paper.theorems.SWEEPS", {"n_entities": (5, 9), "dim": (2, 3)})
    monkeypatch.setattr("experiments.paper.theorems.RATIOS", (1, 2))
    monkeypatch.setattr("experiments.paper.theorems.memory", lambda *a: {"model": "x", "dim": 1})
    for part in ("table1", "figure2", "theorems"):
        call("reproduce", part, "--quick", "--device", "cpu", "--plots", "figures", "-q")
    rows = read_results(in_lab / "results")
    assert {row["experiment"] for row in rows} == {"table1-quick", "figure2-quick", "theorems"}
    shares = [float(row["value"]) for row in rows if row["metric"] == "share"]
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert sorted(path.name for path in (in_lab / "figures").iterdir()) == ["figure2.png", "theorem1.png"]


def test_what_cannot_be_asked(in_lab: Path) -> None:
    assert isinstance(CliRunner().invoke(app, ["reproduce", "table9"]).exception, InputError)
    missing = CliRunner().invoke(app, ["reproduce", "table2", "--rows", "SimplE", "--datasets", "FB13", "--chosen"])
    assert isinstance(missing.exception, InputError)
    assert "no chosen setting of SimplE on FB13" in str(missing.exception)


def test_the_recorded_command_does_not_say_where_results_went(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["/x/experiments", "reproduce", "theorems", "--plots", "/home/x", "-q", "--results=/home/y", "--quick"]
    monkeypatch.setattr("sys.argv", words)
    assert own_command() == "python -m experiments reproduce theorems -q --quick"
