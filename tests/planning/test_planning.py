"""The cost model: its algebra, its limits, sizes known exactly, and the measured runs it was fitted to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sending
from experiments.speed import fit_costs
from experiments.store import read_results
from launching import TESTS, torchrun
from staypositive.cli import app
from staypositive.errors import SettingError
from staypositive.models import MODELS, build_model
from staypositive.objectives import OneVsAll
from staypositive.planning import (
    Shape,
    Training,
    distinct_rows,
    plan_training,
    sent_bytes,
    stored,
    stored_costs,
)

ROOT = Path(__file__).resolve().parents[2]
COSTS = stored_costs()
GRAPH = Shape(86_054_151, 14_824, 338_586_276)
COUNTS = (1, 2, 3, 8, 9, 64, 500)


@pytest.mark.parametrize(("draws", "kinds"), [(131_072, 100_000), (131_072, 1_000_000), (2_000, 150), (500, 400)])
def test_distinct_rows_are_those_of_a_draw(draws: int, kinds: int) -> None:
    random = np.random.default_rng(0)
    counts = [len(np.unique((kinds * random.random(draws) ** 2).astype(int))) for _ in range(20)]
    assert distinct_rows(draws, kinds) == pytest.approx(np.mean(counts), rel=0.02)


def test_distinct_rows_have_limits() -> None:
    assert distinct_rows(0, 10) == 0
    assert distinct_rows(1e12, 10) == pytest.approx(10)
    assert distinct_rows(1000, 10**12) == pytest.approx(1000, rel=1e-6)
    values = [distinct_rows(draws, 1000) for draws in (1, 10, 100, 1000, 10_000)]
    assert values == sorted(values)
    assert all(value <= draws for value, draws in zip(values, (1, 10, 100, 1000, 10_000), strict=True))


@pytest.mark.parametrize("model", sorted(MODELS))
def test_state_is_what_a_model_and_its_optimiser_hold(model: str) -> None:
    numbers = sum(table.numel() for table in build_model(model, 40, 7, 6).parameters())
    assert plan_training(Shape(40, 7, 500), Training(model, dim=6), 1, COSTS).state_bytes == 8 * numbers


def test_state_by_hand() -> None:
    """A billion entities of width 200 are 800 GB of weights and as much of sums; shared by 64, with the relations."""
    shape = Shape(10**9, 10_000, 10**10)
    relations = 10_000 * 200 * 8
    assert plan_training(shape, Training("simple", 100), 1, COSTS).state_bytes == 1_600_000_000_000 + relations
    assert plan_training(shape, Training("simple", 100), 64, COSTS).state_bytes == 25_000_000_000 + relations
    light = Training("simple", 100, optimiser="adagrad-rowwise", precision="bfloat16")
    assert plan_training(shape, light, 1, COSTS).state_bytes == (10**9 + 10_000) * (400 + 4)
    assert plan_training(shape, replace(light, precision="float32"), 1, COSTS).state_bytes == (10**9 + 10_000) * 804


def test_moved_bytes_by_hand() -> None:
    """Where every row of a batch is another, a fact moves two entity rows and its ids, and a batch its relations."""
    plan = plan_training(Shape(10**12, 1, 10**9), Training("distmult", 200, 1000), 1, COSTS)
    assert plan.moved_bytes == pytest.approx(16 * 200 * (2 * 1000 + 1) + 12 * 1000, rel=1e-3)


def test_one_device_sends_nothing() -> None:
    plan = plan_training(GRAPH, Training(), 1, COSTS)
    assert plan.sent_bytes == plan.exchange_seconds == 0


def test_sent_bytes_by_hand() -> None:
    """Of two devices each holds half: half the distinct rows come from the other, and their gradients go back."""
    shape, training = Shape(10**12, 1, 10**9), Training("distmult", 50, 1000)
    sent = sent_bytes(shape, training, 2)
    assert sent["rows"] == pytest.approx(0.5 * 2000 * (2 * 4 * 50 + 4) + 8, rel=1e-3)
    assert (sent["sums"], sent["gradients"]) == (4 * 50, pytest.approx(2 * 4 * 50))
    plan = plan_training(shape, training, 2, COSTS)
    assert plan.sent_bytes == sum(sent.values())
    within = 6 * COSTS.seconds_per_collective + plan.sent_bytes / COSTS.link_bytes_per_second
    assert plan.exchange_seconds == pytest.approx(within)
    with pytest.raises(SettingError, match="no objective that needs every row, got 1vsall"):
        sent_bytes(shape, training, 2, OneVsAll())


@pytest.fixture(scope="module")
def sent_by_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    path = tmp_path_factory.mktemp("sent") / "sent.json"
    done = torchrun(2, TESTS / "sending.py", path)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("name", sending.CASES)
@pytest.mark.parametrize("purpose", ["rows", "sums", "gradients"])
def test_two_processes_send_what_is_planned(
    sent_by_two: dict[str, dict[str, float]], name: str, purpose: str
) -> None:
    shape = Shape(sending.ENTITIES, sending.RELATIONS, sending.FACTS)
    training = Training("complex", 16, sending.BATCH // 2)
    planned = sent_bytes(shape, training, 2, sending.settings_of(name).objective)
    assert planned[purpose] == pytest.approx(sent_by_two[name][purpose], rel=0.05)


def test_more_devices() -> None:
    plans = [plan_training(GRAPH, Training(), count, COSTS) for count in COUNTS]
    assert [p.state_bytes for p in plans] == sorted((p.state_bytes for p in plans), reverse=True)
    assert [p.peak_bytes for p in plans] == sorted((p.peak_bytes for p in plans), reverse=True)
    assert [p.sent_bytes for p in plans] == sorted(p.sent_bytes for p in plans)
    assert [p.exchange_seconds for p in plans] == sorted(p.exchange_seconds for p in plans)
    assert [p.fits for p in plans] == sorted(p.fits for p in plans)
    everything = plan_training(replace(GRAPH, triples=10**12), Training(), 10**4, COSTS).sent_bytes
    assert plans[-1].sent_bytes < everything < 1.01 * plans[-1].sent_bytes
    instant = replace(COSTS, link_bytes_per_second=1e30, network_bytes_per_second=1e30, seconds_per_collective=0)
    one, eight = (plan_training(GRAPH, Training(), count, instant).epoch_seconds for count in (1, 8))
    assert one / eight == pytest.approx(8, rel=1e-3)  # were nothing lost between them


@pytest.mark.parametrize("field", ["entities", "triples"])
def test_larger_graphs_cost_more(field: str) -> None:
    plans = [plan_training(replace(GRAPH, **{field: 10**power}), Training(), 8, COSTS) for power in range(4, 11)]
    assert [p.epoch_seconds for p in plans] == sorted(p.epoch_seconds for p in plans)
    assert [p.peak_bytes for p in plans] == sorted(p.peak_bytes for p in plans)


def test_wider_rows_cost_more_and_larger_batches_less() -> None:
    by_dim = [plan_training(GRAPH, Training(dim=dim), 8, COSTS).epoch_seconds for dim in (16, 64, 256, 1024)]
    assert by_dim == sorted(by_dim)
    batches = [plan_training(GRAPH, Training(batch_size=size), 8, COSTS).epoch_seconds for size in (256, 4096, 65536)]
    assert batches == sorted(batches, reverse=True)


def test_a_small_graph_is_one_short_step() -> None:
    plan = plan_training(Shape(10, 2, 30), Training(), 4, COSTS)
    assert plan.steps == 1
    assert plan.triples_per_second == pytest.approx(30 / plan.epoch_seconds)


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="entities, relations and triples must each be at least 1"):
        Shape(0, 1, 1)
    with pytest.raises(SettingError, match="dim and the batch size must each be at least 1"):
        Training(dim=0)
    with pytest.raises(SettingError, match="the plan knows adagrad and adagrad-rowwise"):
        Training(optimiser="adam")
    with pytest.raises(SettingError, match="at least one GPU is needed, got 0"):
        plan_training(GRAPH, Training(), 0, COSTS)


def test_measured_runs_are_met() -> None:
    """With the package's constants: times within a quarter, peaks within a tenth."""
    runs = fit_costs.measured(read_results(ROOT / "results"))
    assert len(runs) >= 12
    for run in runs:
        shape = Shape(int(run["entities"]), int(run["relations"]), int(run["facts"]))
        model = "distmult" if run["entity_width"] == 200 else "simple"
        plan = plan_training(shape, Training(model, 200, int(run["batch"])), 1, COSTS)
        assert plan.peak_bytes == pytest.approx(1e9 * run["peak_gb"], rel=0.1)
        if shape.triples == 4_000_000:  # FB15k-237AM is smaller than the law's graphs, and has fewer rows a batch
            assert plan.triples_per_second == pytest.approx(run["triples_per_second"], rel=0.25)


def test_a_fit_finds_the_constants_it_was_made_with() -> None:
    runs = fit_costs.measured(read_results(ROOT / "results"))
    for run in runs:
        seconds = 1e-5 / run["batch"] + 2e-9 + 4e-13 * run["bytes_per_fact"]
        seconds += 1e-12 * 4 * (2 * run["entity_width"] + run["relation_width"])
        run["triples_per_second"] = 1 / seconds
    costs, errors = fit_costs.fit(runs)
    assert np.abs(errors).max() < 1e-6
    assert costs["seconds_per_step"] == pytest.approx(1e-5, rel=1e-3)
    assert costs["seconds_per_moved_byte"] == pytest.approx(4e-13, rel=1e-3)


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("size", ["nan", "inf", "-1", "1.5", "1e30"])
def test_sizes_are_whole_numbers(size: str) -> None:
    done = CliRunner().invoke(app, ["plan", "--entities", size])
    assert isinstance(done.exception, SettingError)
    assert "--entities is a whole number from 1 to 1e+15" in str(done.exception)


def test_the_command() -> None:
    text = call()
    for name in (
        "Wikidata5M: 4,594,485 entities",
        "Freebase86M",
        "a billion entities",
        "DGL-KE",
        "none of it measured",
    ):
        assert name in text
    own = json.loads(call("--entities", "1e6", "--triples", "5e6", "--gpus", "1,4", "--device-memory", "1", "--json"))
    one, four = own["plans"]["this graph"]
    assert (one["gpus"], four["gpus"], one["triples"]) == (1, 4, 5_000_000)
    assert not one["fits"]
    assert own["costs"]["device_bytes"] == 1e9
    assert own["provenance"] == stored()["provenance"]
    for arguments, message in ((("--gpus", "some"), "numbers of GPUs"), (("--triples", "5"), "needs --entities")):
        with pytest.raises(SettingError, match=message):
            call(*arguments)
