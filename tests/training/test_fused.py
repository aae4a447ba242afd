"""Fused engines against the reference engine, step for step: every block model and scope, with and without dropout.

The Triton kernels run under Triton's interpreter where there is no GPU.
"""

from __future__ import annotations

import math

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import SettingError
from staypositive.models import TABLES, BilinearModel, build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, StayPositive
from staypositive.training import AdaGrad, Adam, Engine, ReferenceEngine, build_engine
from staypositive.training.fused_cpu import FusedCpuEngine
from staypositive.training.fused_gpu import FusedGpuEngine

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


def make(kind: type, name: str, objective: Objective, dim: int = 21, **settings: object) -> Engine:
    bound = settings.pop("bound", objective.defaults.bound)
    model: BilinearModel = build_model(name, 30, 4, dim, bound=bound, prior_score=-0.5, **settings)
    model.initialise(torch.Generator().manual_seed(1))
    optimiser = AdaGrad({"entities": model.entities.data, "relations": model.relations.data}, 0.1)
    engine: Engine = kind(model, objective, optimiser, FACTS, 40, 3)
    return engine


def assert_same_steps(kind: type, name: str, objective: Objective, epochs: int = 2, **settings: object) -> None:
    plain, fused = make(ReferenceEngine, name, objective, **settings), make(kind, name, objective, **settings)
    for _ in range(epochs):
        expected, found = plain.run_epoch(), fused.run_epoch()
        assert list(found) == list(expected)
        for term, value in expected.items():
            assert float(found[term]) == pytest.approx(float(value), rel=2e-5, abs=1e-6)
        for table in ("entities", "relations"):
            ours, theirs = getattr(fused.model, table).data, getattr(plain.model, table).data
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("objective", [*SCOPES, *BASELINES])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_cpu_takes_the_reference_steps(name: str, objective: str, dropout: float) -> None:
    assert_same_steps(FusedCpuEngine, name, {**SCOPES, **BASELINES}[objective], dropout=dropout)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("objective", ["batch", "all-square"])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_gpu_kernels_take_the_reference_steps(name: str, objective: str, dropout: float) -> None:
    assert_same_steps(FusedGpuEngine, name, SCOPES[objective], dropout=dropout, epochs=1)


@pytest.mark.usefixtures("interpreter")
def test_gpu_kernels_over_several_epochs_and_other_shapes() -> None:
    assert_same_steps(FusedGpuEngine, "distmult", SCOPES["batch"], epochs=3)
    assert_same_steps(FusedGpuEngine, "simple", SCOPES["batch-paper-square"], epochs=2, dim=5)
    assert_same_steps(FusedGpuEngine, "distmult", SCOPES["all"], bound="identity", epochs=1)


@pytest.mark.parametrize(("dim", "bound"), [(1, "tanh"), (16, "identity"), (50, "tanh")])
def test_cpu_with_other_shapes_and_bounds(dim: int, bound: str) -> None:
    assert_same_steps(FusedCpuEngine, "complex", SCOPES["batch"], dim=dim, bound=bound, dropout=0.2)


@pytest.mark.parametrize("threads", [1, 2])
def test_cpu_gives_the_same_twice(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        runs = [make(FusedCpuEngine, "simple", SCOPES["batch"], dropout=0.3) for _ in range(2)]
        for engine in runs:
            engine.run_epoch()
        assert torch.equal(runs[0].model.entities, runs[1].model.entities)
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter computes with numpy
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("kind", [FusedCpuEngine, FusedGpuEngine])
def test_a_bad_step_is_not_taken(kind: type) -> None:
    engine = make(kind, "distmult", StayPositive(penalty_weight=1e38), bound="identity")
    before = engine.model.entities.detach().clone()
    terms = engine.run_epoch()
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

    def kind(name: str, model: BilinearModel, objective: Objective, optimiser: AdaGrad | Adam) -> type:
        return type(build_engine(name, model, objective, optimiser, FACTS, 40, 0))

    assert kind("auto", model, StayPositive(), adagrad) is FusedCpuEngine
    assert kind("reference", model, StayPositive(), adagrad) is ReferenceEngine
    for other in (
        (model, OneVsAll(), adagrad),
        (model, StayPositive(), adam),
        (build_model("hole", 30, 4, 4), StayPositive(), adagrad),
        (build_model("distmult", 30, 4, 4).double(), StayPositive(), adagrad),
    ):
        assert kind("auto", *other) is ReferenceEngine
        with pytest.raises(SettingError, match="fused engine cannot be used here: it"):
            kind("fused", *other)
    with pytest.raises(SettingError, match="auto, reference, fused"):
        kind("quick", model, StayPositive(), adagrad)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert kind("auto", model, StayPositive(), adagrad) is ReferenceEngine
    with pytest.raises(SettingError, match="numba is not installed"):
        kind("fused", model, StayPositive(), adagrad)


@pytest.mark.parametrize(
    ("model", "objective", "optimiser", "said"),
    [
        ("hole", StayPositive(), "adagrad", "block family"),
        ("distmult", NegativeSampling(), "adagrad", "no step for the objective"),
        ("distmult", StayPositive(), "adam", "AdaGrad alone"),
        ("distmult", StayPositive(), "adagrad", ""),
    ],
)
def test_what_the_gpu_engine_serves(model: str, objective: Objective, optimiser: str, said: str) -> None:
    from staypositive.training import build_optimiser
    from staypositive.training.fused import why_not

    built = build_model(model, 30, 4, 4)
    tables = {"entities": built.entities.data, "relations": built.relations.data}
    reason = why_not("triton", FusedGpuEngine.serves, built, objective, build_optimiser(optimiser, tables, 0.1, 0.1))
    assert said in reason
    assert bool(said) == bool(reason)
    double = build_model("distmult", 30, 4, 4).double()
    assert "32-bit" in why_not("triton", FusedGpuEngine.serves, double, StayPositive(), AdaGrad(tables, 0.1))


def test_both_engines_give_the_same_run() -> None:
    graph = planted_graph()
    options = {"model": "simple", "dim": 8, "epochs": 10, "batch_size": 64, "dropout": 0.2, "validate_every": 5}
    plain, fused = (sp.fit(graph, engine=engine, **options) for engine in ("reference", "fused"))
    assert fused.provenance["engine"] == "FusedCpuEngine"
    assert plain.provenance["engine"] == "ReferenceEngine"
    for ours, theirs in zip(fused.history, plain.history, strict=True):
        assert ours.terms == pytest.approx(theirs.terms, rel=1e-4)
        assert ours.validation == pytest.approx(theirs.validation, rel=1e-4)
