"""The second-moment engines against the reference, and against steps written out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import SettingError
from staypositive.models import BilinearModel, build_model
from staypositive.models.hashing import step_keys
from staypositive.objectives import SecondMoment, StayPositive
from staypositive.training import AdaGrad, SteppedEngine, TrainingTask, choose
from staypositive.training.dense_adagrad import step_whole_table
from stepping import epoch, stepped

E, R = 40, 3


def make_model(name: str, bound: str = "identity") -> BilinearModel:
    model = build_model(name, E, R, 2, bound=bound, dropout=0.3, reciprocal=True).double()
    model.initialise(torch.Generator().manual_seed(1), 0.7)
    return model


def draw_facts() -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(n, (130,), generator=draw) for n in (E, 2 * R, E)], dim=1)


def build(kind: str, model: BilinearModel, objective: SecondMoment) -> SteppedEngine:
    tables = {name: table.data for name, table in model.named_parameters()}
    return stepped(kind, model, objective, AdaGrad(tables, 0.05), draw_facts(), 60, 0)


@pytest.mark.parametrize("bound", ["identity", "tanh"])
@pytest.mark.parametrize("weighting", ["triple", "query", "all"])
def test_the_reference_steps(model_name: str, weighting: str, bound: str) -> None:
    objective = SecondMoment(weighting=weighting, unobserved_weight=0.05, relation_power=0.5)
    fast, plain = (build(kind, make_model(model_name, bound), objective) for kind in ("autograd-gram", "autograd"))
    for _ in range(2):
        found, expected = epoch(fast), epoch(plain)
    for term, value in expected.items():
        torch.testing.assert_close(found[term], value)
    for name, table in plain.model.named_parameters():
        torch.testing.assert_close(fast.model.get_parameter(name), table)


@pytest.mark.parametrize("bound", ["identity", "tanh"])
def test_steps_that_spread_now_and_then(model_name: str, bound: str) -> None:
    """Written out: G formed anew each step, gradients by autograd on the whole table, spread every second step."""
    objective = SecondMoment(unobserved_weight=0.05, gram_update_interval=2)
    engine = build("autograd-interval", make_model(model_name, bound), objective)
    twin = build("autograd", make_model(model_name, bound), SecondMoment(unobserved_weight=0.05))
    model, pending, taken = twin.model, 0.0, 0.0
    for step, chosen in enumerate(torch.arange(130).split(40)):
        facts = draw_facts()[chosen]
        engine.step(facts)
        batch = twin.store.fetch(facts, {}, step_keys(0, step, 1, facts.device)).batch
        gram = (batch.entity_rows.T @ batch.entity_rows).detach().requires_grad_()
        terms = objective.terms(model, replace(batch, statistic=gram))
        loss = sum(terms.values())
        tables = (batch.entity_weights, gram, batch.relation_weights, *model.shared().values())
        of_entities, of_gram, *others = torch.autograd.grad(loss, tables, retain_graph=True)
        ids = facts[:, [0, 2]].unique()
        for name, gradient in zip(("relations", *model.shared()), others, strict=True):
            twin.optimiser.update(name, None, gradient)
        through = batch.entity_rows.T @ batch.entity_rows  # G as a function of the rows, its gradient held
        (of_rows,) = torch.autograd.grad((through * of_gram).sum(), batch.entity_rows, retain_graph=True)
        (of_weights,) = torch.autograd.grad(batch.entity_rows, batch.entity_weights, of_rows)
        twin.optimiser.update("entities", ids, (of_entities + of_weights)[ids])
        pending = pending + of_gram
        taken = taken + torch.zeros_like(of_rows).index_copy(0, ids, of_rows[ids])
        if step % 2 == 1:
            weights = model.entities.detach().clone().requires_grad_()
            rows = model.form_entity_rows(weights)
            left = (rows.T @ rows * pending).sum() - (rows * taken).sum()
            (of_all,) = torch.autograd.grad(left, weights)
            twin.optimiser.update("entities", None, of_all)
            pending, taken = 0.0, 0.0
    for name, table in model.named_parameters():
        torch.testing.assert_close(engine.model.get_parameter(name), table)


def test_a_bad_step_changes_nothing() -> None:
    for kind, every in (("autograd-gram", 1), ("autograd-interval", 4)):
        model = make_model("complex")
        model.relations.data.fill_(1e200)  # so that squared scores are infinite
        engine = build(kind, model, SecondMoment(gram_update_interval=every))
        before = engine.model.entities.detach().clone()
        terms = engine.step(draw_facts()[:60])
        assert not torch.isfinite(torch.stack(list(terms.values()))).all()
        assert torch.equal(engine.model.entities, before)


def test_which_engine_is_built() -> None:
    def kind(objective: SecondMoment | StayPositive, name: str = "auto", batch: int = 60) -> str:
        model = make_model("distmult")
        optimiser = AdaGrad({"entities": model.entities.data, "relations": model.relations.data}, 0.1)
        return choose(name, TrainingTask(model, objective, optimiser, draw_facts(), batch, 0))

    assert kind(SecondMoment()) == kind(SecondMoment(), "fused") == "autograd-gram"
    assert kind(SecondMoment(), "reference") == kind(SecondMoment(), batch=1) == "autograd"
    assert (
        kind(SecondMoment(gram_update_interval=3))
        == kind(SecondMoment(gram_update_interval=3), "reference")
        == "autograd-interval"
    )
    with pytest.raises(SettingError, match="no step for the objective second-moment"):
        kind(SecondMoment(), "fused", batch=1)


def test_spreading_learns() -> None:
    run = sp.fit(
        planted_graph(), model="complex", objective="second-moment", dim=6, epochs=60, batch_size=64, init_scale=0.5,
        unobserved_weight=0.01, n3=0.001, gram_update_interval=3,
    )  # fmt: skip
    assert run.evaluate("test")["classification"]["all"]["uncalibrated"]["auc"] > 0.85


def test_one_pass_over_a_table_is_adagrad() -> None:
    draw = torch.Generator().manual_seed(0)
    shape = (700, 7)  # no whole number of blocks
    weights, squares, gradient = (torch.rand(shape, generator=draw) for _ in range(3))
    plain = AdaGrad({"table": weights.clone()}, 0.1)
    plain.squares["table"].copy_(squares)
    plain.update("table", None, gradient)
    step_whole_table(weights, squares, gradient, 0.1, plain.epsilon)
    torch.testing.assert_close(weights, plain.tables["table"])
    torch.testing.assert_close(squares, plain.squares["table"])
