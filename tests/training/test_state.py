"""State: an engine that is put back where it stood takes the same steps, to the last bit."""

from __future__ import annotations

import pytest
import torch

from conftest import tiny_model
from staypositive.errors import RunError, SettingError
from staypositive.models import build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, SecondMoment, StayPositive
from staypositive.training import Engine, build_optimiser, copy_into, under, within
from stepping import engine_of, epoch

E, R = 30, 3
CASES = {
    "reference": ("autograd", StayPositive(), "adagrad", torch.float32),
    "reference-all-rows": ("autograd", StayPositive(scope="all"), "adagrad-rowwise", torch.float32),
    "reference-adam": ("autograd", OneVsAll(), "adam", torch.float32),
    "reference-bfloat16": ("autograd", NegativeSampling(negatives=2), "adam", torch.bfloat16),
    "fused-cpu": ("fused-cpu", StayPositive(), "adagrad", torch.float32),
    "fused-cpu-negatives": ("fused-cpu", NegativeSampling(negatives=2), "adagrad-rowwise", torch.float32),
    "fused-gpu": ("fused-gpu", StayPositive(), "adagrad", torch.float32),
    "moments": ("autograd-gram", SecondMoment(reciprocal=False), "adagrad", torch.float32),
    "spread": ("autograd-interval", SecondMoment(reciprocal=False, gram_update_interval=5), "adam", torch.float32),
}


def build(case: str) -> Engine:
    kind, objective, optimiser, dtype = CASES[case]
    model = build_model("simple", E, R, 3, bound=objective.defaults.bound, dropout=0.3)
    model.initialise(torch.Generator().manual_seed(3), 0.5)
    model.to(dtype)
    draw = torch.Generator().manual_seed(0)
    facts = torch.stack([torch.randint(n, (70,), generator=draw) for n in (E, R, E)], dim=1)
    tables = {name: table.data for name, table in model.named_parameters()}
    return engine_of(kind, model, objective, build_optimiser(optimiser, tables, 0.1, 0.1), facts, 20, 1)


def kept(engine: Engine) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in engine.state().items()}


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_restored_engine_takes_the_same_steps(case: str, epochs: int) -> None:
    whole = build(case)
    for _ in range(epochs):
        whole.run_epoch()
    state = kept(whole)
    terms = [epoch(whole) for _ in range(2)]
    end = kept(whole)
    assert not torch.equal(end["model.entities"], state["model.entities"])
    other = build(case)
    other.run_epoch()  # so that it stands elsewhere
    for engine in (build(case), other, whole):  # a fresh one, one that stands elsewhere, and one that went too far
        engine.restore(state)
        assert_equal(kept(engine), state)
        for expected in terms:
            assert_equal(epoch(engine), expected)
        assert_equal(kept(engine), end)


def test_every_model_has_its_tables_in_the_state(model_name: str) -> None:
    objective: Objective = StayPositive()
    model = tiny_model(model_name)
    tables = {name: table.data for name, table in model.named_parameters()}
    facts = torch.tensor([(0, 0, 1), (2, 1, 2), (4, 0, 0)])
    engine = engine_of("autograd", model, objective, build_optimiser("adam", tables, 0.1, 0.1), facts, 2, 0)
    state = kept(engine)
    assert within("model", state).keys() == tables.keys()
    assert within("optimiser.means", state).keys() == tables.keys()
    engine.run_epoch()
    moved = [name for name, table in within("model", kept(engine)).items() if not torch.equal(table, tables[name])]
    assert moved == []  # the state holds the tables themselves
    assert any(not torch.equal(table, state[f"model.{name}"]) for name, table in tables.items())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, r"expected model\.entities .* got nothing"),
        ({"model.entities": torch.zeros(2, 2)}, r"of shape \(30, 6\) .* got \(2, 2\)"),
        ({"model.entities": torch.zeros(30, 6, dtype=torch.float64)}, "got .* of torch.float64"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, torch.Tensor], said: str) -> None:
    engine = build("reference")
    state = kept(engine)
    del state["model.entities"]
    with pytest.raises(RunError, match=said):
        engine.restore(state | change)


def test_names() -> None:
    tensors = {"a": torch.ones(1), "b.c": torch.zeros(2)}
    assert within("x", {**under("x", tensors), **under("xy", tensors)}).keys() == tensors.keys()
    target = torch.zeros(1)
    copy_into({"a": target}, tensors)
    assert target.item() == 1


def test_an_engine_without_state_says_so() -> None:
    class Bare(Engine):
        name = "bare"

        def run_epoch(self) -> list[dict[str, torch.Tensor]]:
            return []

    with pytest.raises(SettingError, match="bare cannot save its state"):
        Bare().state()
    with pytest.raises(SettingError, match="bare cannot resume"):
        Bare().restore({})
    with pytest.raises(SettingError, match="bare trains one run"):
        Bare().keep([0])
