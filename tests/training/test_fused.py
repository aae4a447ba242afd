"""Fused engines against the reference engine, step for step: every block model and scope, with and without dropout.

The Triton kernels run under Triton's interpreter where there is no GPU.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import SettingError
from staypositive.models import MODELS, TABLES, BilinearModel, Table, build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, StayPositive
from staypositive.training import KINDS, AdaGrad, Adam, Engine, TrainingTask, build_engine, choose
from staypositive.training.fused_gpu import FusedGpuEngine
from staypositive.training.optimisers import round_at_random, rounding_bits
from stepping import engine_of, epoch

pytest.importorskip("numba", reason="the fused CPU engine needs numba")

DRAW = torch.Generator().manual_seed(0)
FACTS = torch.stack([torch.randint(n, (90,), generator=DRAW) for n in (30, 4, 30)], dim=1)
FACTS[0, 2] = FACTS[0, 0]  # an entity on both sides of one fact

SCOPES = {
    "batch": StayPositive(penalty_weight=0.3),
    "batch-paper-square": StayPositive(penalty_weight=1e-4, weighting="paper", power=2),
    "all": StayPositive(penalty_weight=0.3, scope="all"),
    "all-square": StayPositive(penalty_weight=1e-4, scope="all", power=2),
}
BASELINES = {"negatives": NegativeSampling(negatives=2), "negatives-l2": NegativeSampling(l2=0.1)}


@pytest.fixture(scope="module")
def interpreter() -> None:
    """Skip where Triton cannot run: its interpreter, which conftest.py turns on, needs Triton all the same."""
    pytest.importorskip("triton", reason="the fused GPU engine needs triton")


def make(kind: str, name: str, objective: Objective, dim: int = 21, **settings: object) -> Engine:
    bound, rowwise = settings.pop("bound", objective.defaults.bound), settings.pop("rowwise", False)
    dtype = settings.pop("dtype", torch.float32)
    model: BilinearModel = build_model(name, 30, 4, dim, bound=bound, prior_score=-0.5, **settings)
    model.initialise(torch.Generator().manual_seed(1))
    model = model.to(dtype)
    tables = {"entities": model.entities.data, "relations": model.relations.data}
    optimiser = AdaGrad(tables, 0.1, rowwise=bool(rowwise))
    return engine_of(kind, model, objective, optimiser, FACTS, 40, 3)


def assert_same_steps(kind: str, name: str, objective: Objective, epochs: int = 2, **settings: object) -> None:
    plain, fused = make("autograd", name, objective, **settings), make(kind, name, objective, **settings)
    for _ in range(epochs):
        expected, found = epoch(plain), epoch(fused)
        assert list(found) == list(expected)
        for term, value in expected.items():
            assert float(found[term]) == pytest.approx(float(value), rel=2e-5, abs=1e-6)
        for table in ("entities", "relations"):
            ours, theirs = getattr(fused.model, table).data, getattr(plain.model, table).data
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=3e-6)


def why_not(kind: str, model: BilinearModel, objective: Objective, optimiser: AdaGrad | Adam) -> str:
    """Return why kernels cannot take these steps, wherever the tables are."""
    requirement = KINDS[kind].requirements[-1]
    return requirement(TrainingTask(model, objective, optimiser, FACTS, 40, 0))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("objective", [*SCOPES, *BASELINES])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_cpu_takes_the_reference_steps(name: str, objective: str, dropout: float) -> None:
    assert_same_steps("fused-cpu", name, {**SCOPES, **BASELINES}[objective], dropout=dropout)


@pytest.mark.parametrize("objective", ["batch", "all-square", "negatives-l2"])
def test_cpu_takes_the_reference_steps_rowwise(objective: str) -> None:
    assert_same_steps("fused-cpu", "complex", {**SCOPES, **BASELINES}[objective], rowwise=True, dropout=0.4)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("objective", ["batch", "all-square", *BASELINES])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_gpu_kernels_take_the_reference_steps(name: str, objective: str, dropout: float) -> None:
    assert_same_steps("fused-gpu", name, {**SCOPES, **BASELINES}[objective], dropout=dropout, epochs=1)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("objective", ["batch", "all", "negatives", "negatives-l2"])
def test_gpu_kernels_rowwise(objective: str) -> None:
    assert_same_steps("fused-gpu", "simple", {**SCOPES, **BASELINES}[objective], rowwise=True, epochs=2)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("objective", ["batch", "negatives-l2"])
def test_gpu_kernels_with_rows_in_16_bits(objective: str, rowwise: bool) -> None:
    """The same random bits round both; where 32-bit sums differ in their last bit, one entry may round otherwise."""
    settings = {"rowwise": rowwise, "dtype": torch.bfloat16, "dropout": 0.4}
    wanted = {**SCOPES, **BASELINES}[objective]
    plain, fused = (
        make("autograd", "complex", wanted, **settings),
        make("fused-gpu", "complex", wanted, **settings),
    )
    before = plain.model.entities.detach().float().clone()
    plain.run_epoch(), fused.run_epoch()
    ours, theirs = fused.model.entities.detach().float(), plain.model.entities.detach().float()
    assert fused.model.entities.dtype == torch.bfloat16
    assert (theirs != before).float().mean() > 0.9
    same = (ours == theirs).float().mean()
    assert same > 0.98
    torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=1e-3)


def test_rounding_at_random_keeps_the_mean() -> None:
    values = torch.tensor([1.001, -0.3, 1e-3, 100.1]).repeat(20_000, 1)
    bits = rounding_bits(torch.tensor(5), 0, torch.arange(20_000), 4)
    rounded = round_at_random(values, bits).float()
    assert rounded.unique(dim=0).shape[0] > 2
    torch.testing.assert_close(rounded.mean(0), values[0], rtol=1e-4, atol=0)
    assert ((rounded - values).abs() / values.abs()).max() < 2**-7


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("baseline", [False, True])
def test_a_pack_gives_what_each_run_gives_alone(baseline: bool) -> None:
    def member(number: int) -> TrainingTask:
        objective = (
            NegativeSampling(negatives=2, l2=0.1 * number + 0.01)
            if baseline
            else StayPositive(penalty_weight=0.1 * number)
        )
        bound = objective.defaults.bound
        model = build_model("simple", 30, 4, 8, bound=bound, prior_score=-number, dropout=0.4 * (number % 2))
        model.initialise(torch.Generator().manual_seed(number))
        tables = {"entities": model.entities.data, "relations": model.relations.data}
        return TrainingTask(model, objective, AdaGrad(tables, 0.05 * (1 + number)), FACTS, 40, seed=number // 2)

    pack = FusedGpuEngine([member(number) for number in range(4)])
    pack.run_epoch()
    left = pack.models[2]
    kept = left.entities.detach().clone()
    pack.keep([0, 1, 3])
    found = pack.run_epoch()
    assert torch.equal(left.entities, kept)
    for number, packed, terms in zip((0, 1, 3), pack.tasks, found, strict=True):
        alone = member(number)
        engine = build_engine("autograd", alone)
        engine.run_epoch()
        expected = epoch(engine)
        assert {name: float(v) for name, v in terms.items()} == pytest.approx(
            {name: float(v) for name, v in expected.items()}, rel=2e-5, abs=1e-6
        )
        torch.testing.assert_close(packed.model.entities, alone.model.entities, rtol=1e-5, atol=3e-6)
        torch.testing.assert_close(packed.model.relations, alone.model.relations, rtol=1e-5, atol=3e-6)
        torch.testing.assert_close(packed.optimiser.squares["entities"], alone.optimiser.squares["entities"])


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("objective", ["batch", "all-square", "negatives-l2"])
def test_warming_up_trains_nothing(objective: str) -> None:
    wanted = {**SCOPES, **BASELINES}[objective]
    fresh, warm = make("fused-gpu", "simple", wanted), make("fused-gpu", "simple", wanted)
    before = warm.model.entities.detach().clone()
    warm._warm_up(len(FACTS))
    assert torch.equal(warm.model.entities, before)
    assert {k: float(v) for k, v in epoch(warm).items()} == {k: float(v) for k, v in epoch(fresh).items()}
    assert torch.equal(warm.model.entities, fresh.model.entities)
    assert torch.equal(warm.squares["relations"], fresh.squares["relations"])


@pytest.mark.usefixtures("interpreter")
def test_a_pack_refuses_runs_of_other_shapes() -> None:
    members = []
    for dim in (4, 8):
        model = build_model("distmult", 30, 4, dim)
        tables = {"entities": model.entities.data, "relations": model.relations.data}
        members.append(TrainingTask(model, StayPositive(), AdaGrad(tables, 0.1), FACTS, 40, 0))
    with pytest.raises(SettingError, match="must be alike"):
        FusedGpuEngine(members)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("objective", ["batch", "negatives"])
def test_an_epoch_in_several_parts(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.training.fused_gpu.MOST_STEPS", 2)
    assert_same_steps("fused-gpu", "distmult", {**SCOPES, **BASELINES}[objective], epochs=2)


@pytest.mark.usefixtures("interpreter")
def test_gpu_kernels_over_several_epochs_and_other_shapes() -> None:
    assert_same_steps("fused-gpu", "distmult", SCOPES["batch"], epochs=3)
    assert_same_steps("fused-gpu", "simple", SCOPES["batch-paper-square"], epochs=2, dim=5)
    assert_same_steps("fused-gpu", "distmult", SCOPES["all"], bound="identity", epochs=1)


@pytest.mark.parametrize(("dim", "bound"), [(1, "tanh"), (16, "identity"), (50, "tanh")])
def test_cpu_with_other_shapes_and_bounds(dim: int, bound: str) -> None:
    assert_same_steps("fused-cpu", "complex", SCOPES["batch"], dim=dim, bound=bound, dropout=0.2)


def test_cpu_moves_large_tables_and_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.training.fused_cpu.LARGE_TABLE", 0)
    engine = make("fused-cpu", "simple", SCOPES["batch"])
    assert engine.optimiser.tables["entities"].data_ptr() == engine.model.entities.data_ptr()
    assert_same_steps("fused-cpu", "simple", SCOPES["batch"], dropout=0.2)


@pytest.mark.parametrize("threads", [1, 2])
def test_cpu_gives_the_same_twice(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        runs = [make("fused-cpu", "simple", SCOPES["batch"], dropout=0.3) for _ in range(2)]
        for engine in runs:
            engine.run_epoch()
        assert torch.equal(runs[0].model.entities, runs[1].model.entities)
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter computes with numpy
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("kind", ["fused-cpu", "fused-gpu"])
def test_a_bad_step_is_not_taken(kind: str) -> None:
    engine = make(kind, "distmult", StayPositive(penalty_weight=1e38), bound="identity")
    before = engine.model.entities.detach().clone()
    terms = epoch(engine)
    assert not all(math.isfinite(float(value)) for value in terms.values())
    assert torch.equal(engine.model.entities, before)


def test_tanh_of_the_kernels() -> None:
    import numpy as np

    from staypositive.training import cpu_kernels

    x = np.linspace(-12, 12, 4001, dtype=np.float32)[:, None]
    rows, gradients = np.zeros_like(x), np.zeros((1, *x.shape), np.float32)
    cpu_kernels.gather(x, np.arange(len(x)), len(x), True, rows, gradients, 1, np.zeros(1, np.float32))
    np.testing.assert_allclose(rows, np.tanh(x.astype(np.float64)), atol=6e-7)
    assert np.abs(rows).max() <= 1


def test_choosing_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model("distmult", 30, 4, 4)
    tables = {"entities": model.entities.data, "relations": model.relations.data}
    adagrad, adam = AdaGrad(tables, 0.1), Adam(tables, 0.1)

    def kind(name: str, model: BilinearModel, objective: Objective, optimiser: AdaGrad | Adam) -> str:
        return choose(name, TrainingTask(model, objective, optimiser, FACTS, 40, 0))

    assert kind("auto", model, StayPositive(), adagrad) == "fused-cpu"
    assert kind("reference", model, StayPositive(), adagrad) == "autograd"
    for other in (
        (model, OneVsAll(), adagrad),
        (model, StayPositive(), adam),
        (build_model("hole", 30, 4, 4), StayPositive(), adagrad),
        (build_model("distmult", 30, 4, 4).double(), StayPositive(), adagrad),
    ):
        assert kind("auto", *other) == "autograd"
        with pytest.raises(SettingError, match="fused engine cannot be used here: it"):
            kind("fused", *other)
    with pytest.raises(SettingError, match="auto, reference, fused"):
        kind("quick", model, StayPositive(), adagrad)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert kind("auto", model, StayPositive(), adagrad) == "autograd"
    with pytest.raises(SettingError, match="numba is not installed"):
        kind("fused", model, StayPositive(), adagrad)


@pytest.mark.parametrize(
    ("model", "objective", "optimiser", "said"),
    [
        ("hole", StayPositive(), "adagrad", "block family"),
        ("distmult", OneVsAll(), "adagrad", "no step for the objective"),
        ("distmult", StayPositive(), "adam", "AdaGrad alone"),
        ("distmult", StayPositive(), "adagrad", ""),
    ],
)
def test_what_the_gpu_engine_serves(model: str, objective: Objective, optimiser: str, said: str) -> None:
    from staypositive.training import build_optimiser

    built = build_model(model, 30, 4, 4)
    tables = {"entities": built.entities.data, "relations": built.relations.data}
    reason = why_not("fused-gpu", built, objective, build_optimiser(optimiser, tables, 0.1, 0.1))
    assert said in reason
    assert bool(said) == bool(reason)
    double = build_model("distmult", 30, 4, 4).double()
    assert "float32 or bfloat16 alone" in why_not("fused-gpu", double, StayPositive(), AdaGrad(tables, 0.1))


FIVE_BLOCKS = Table(5, 5, "000+ 114- 441+ 233+ 342+ 024-", weight=0.5)
"""A table with more blocks than the GPU kernels can address."""


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(MODELS, "five", FIVE_BLOCKS)
    return "five"


def test_cpu_takes_the_reference_steps_of_any_number_of_blocks(five: str) -> None:
    assert_same_steps("fused-cpu", five, SCOPES["batch"], dropout=0.4)


def test_the_gpu_engine_refuses_more_blocks_than_it_can_address(five: str) -> None:
    model = build_model(five, 30, 4, 4)
    adagrad = AdaGrad({"entities": model.entities.data, "relations": model.relations.data}, 0.1)
    assert "4 blocks per row; this model has 5" in why_not("fused-gpu", model, SCOPES["batch"], adagrad)
    assert why_not("fused-cpu", model, SCOPES["batch"], adagrad) == ""


def test_both_engines_give_the_same_run() -> None:
    graph = planted_graph()
    options = {"model": "simple", "dim": 8, "epochs": 10, "batch_size": 64, "dropout": 0.2, "validate_every": 5}
    plain, fused = (sp.fit(graph, engine=engine, **options) for engine in ("reference", "fused"))
    assert fused.provenance["engine"] == "fused-cpu"
    assert plain.provenance["engine"] == "autograd"
    for ours, theirs in zip(fused.history, plain.history, strict=True):
        assert ours.terms == pytest.approx(theirs.terms, rel=1e-4)
        assert ours.validation == pytest.approx(theirs.validation, rel=1e-4)


def test_the_first_run_of_a_process_equals_the_second() -> None:
    """Numba starts its threads in the first; that must not change torch's, nor so the next engine's."""
    code = (
        "import torch, staypositive as sp; from conftest import planted_graph\n"
        "runs = [sp.fit(planted_graph(), model='simple', dim=6, epochs=2, batch_size=64) for _ in range(2)]\n"
        "assert torch.get_num_threads() == 1, torch.get_num_threads()\n"
        "assert torch.equal(runs[0].model.entities, runs[1].model.entities)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tests, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
