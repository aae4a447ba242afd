"""Alternating least squares: its matrices against enumeration, its rest against the slope of the objective."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from torch import Tensor

from experiments.quality import als
from staypositive.models import BlockModel, build_model
from staypositive.objectives import SecondMoment
from staypositive.objectives.objective import Batch

W0 = 0.05


def start(name: str, seed: int = 0) -> tuple[BlockModel, Tensor]:
    """A small model in 64 bits and its facts, read both ways, one of them of an entity with itself."""
    draw = torch.Generator().manual_seed(seed)
    model = build_model(name, n_entities=7, n_relations=2, dim=3, bound="identity", reciprocal=True).double()
    assert isinstance(model, BlockModel)
    model.initialise(draw, 0.7)
    facts = torch.cartesian_prod(torch.arange(7), torch.arange(2), torch.arange(7))
    facts = facts[torch.randperm(len(facts), generator=draw)[:18]]
    facts[0, 2] = facts[0, 0]
    backwards = facts.flip(1) + torch.tensor([0, 2, 0])
    return model, torch.cat([facts, backwards])


def whole_loss(model: BlockModel, objective: SecondMoment, facts: Tensor, l2: float = 0.0) -> Tensor:
    """The library's objective over all facts at once, and L2 of their rows."""
    heads, relations, tails = facts.unbind(1)
    prepared = objective.prepare(facts, model.n_entities, 2 * model.n_relations)
    tables = (model.entities, model.relations)
    batch = Batch(heads, relations, tails, len(facts), *tables, *tables, 1, torch.tensor(0), prepared)
    rows = (model.entities[heads], model.relations[relations], model.entities[tails])
    penalty = sum(row.square().sum() for row in rows) * l2 / len(facts)
    return torch.stack(list(objective.terms(model, batch).values())).sum() + penalty


@pytest.mark.parametrize("name", ["distmult", "simple", "complex"])
def test_squares_equal_enumeration(name: str) -> None:
    model, _ = start(name)
    tables = [model.entities.data[:3], model.relations.data, model.entities.data[3:]]
    queries = (model.head_query, model.relation_query, model.tail_query)
    for missing in range(3):
        left, right = (tables[place] for place in range(3) if place != missing)
        expected = torch.zeros(tables[missing].shape[1], tables[missing].shape[1], dtype=torch.float64)
        for one, other in itertools.product(left, right):
            pair = (other, one) if missing == als.HEAD else (one, other)  # a head's query is of tail and relation
            query = queries[missing](*pair).detach()
            expected += torch.outer(query, query)
        found = als.squares(model, missing, left.T @ left, right.T @ right)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("name", "penalty", "power"), [("distmult", "l2", 0.0), ("complex", "n3", 0.5)])
def test_at_rest_the_objective_has_no_slope(name: str, penalty: str, power: float) -> None:
    model, facts = start(name)
    ridge = 0.03
    objective = SecondMoment(unobserved_weight=W0, n3=ridge, n3_power=power, relation_weight=0.0)
    solver = als.Alternating(model, objective, facts, penalty, 0)
    library = objective if penalty == "n3" else dataclasses.replace(objective, n3=0.0)
    l2 = ridge if penalty == "l2" else 0.0

    def slope() -> float:
        tables = (model.entities, model.relations)
        found = torch.autograd.grad(whole_loss(model, library, facts, l2), tables)
        return max(float(part.abs().max()) for part in found)

    before = slope()
    for _ in range(400):
        solver.sweep()
    assert slope() < 1e-4 * before
    assert whole_loss(model, library, facts, l2).item() < 0.9  # and it is no rest at zero
    assert torch.isfinite(model.entities).all()


def test_sweeps_lower_the_loss() -> None:
    model, facts = start("complex", seed=1)
    objective = SecondMoment(unobserved_weight=0.01, n3=0.02, relation_weight=0.0)
    solver = als.Alternating(model, objective, facts, "l2", 0)
    plain, losses = dataclasses.replace(objective, n3=0.0), []
    for _ in range(12):
        losses.append(whole_loss(model, plain, facts, objective.n3).item())
        solver.sweep()
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(losses))
    assert losses[-1] < losses[0] / 2
