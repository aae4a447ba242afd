"""Fold-in against its float64 twin: every square of the objective enumerated, then generic least squares."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from conftest import tiny_model
from staypositive.errors import SettingError
from staypositive.inference.fold_in import FoldIn, mean_fact_scores
from staypositive.models import BilinearModel

FACTS = torch.tensor([(0, 0, 1), (2, 1, 3), (2, 1, 4), (5, 2, 6), (6, 0, 6), (2, 1, 3)])
NEW, THEIRS = 7, torch.tensor([(7, 0, 2), (7, 0, 3), (4, 1, 7)])
W0, RIDGE = 0.2, 0.05


def twin(model: BilinearModel, targets: Tensor) -> Tensor:
    """Stack one weighted equation for each square, a fact's own answer left out of its background by hand."""
    rows, relations, R = model.entity_rows().detach(), model.relation_rows().detach(), model.n_relations
    units = torch.eye(rows.shape[1], dtype=rows.dtype)
    equations: list[tuple[Tensor, float, float]] = []

    def linear(h: int, r: int, t: int) -> Tensor:
        """The score as a linear function of the new entity, read off at the unit vectors."""
        return model.score_rows(units if h == NEW else rows[h], relations[r], units if t == NEW else rows[t])

    def questions(h: int, r: int, t: int) -> list[tuple[int, tuple[int, int, int]]]:
        """Both questions of a fact, each as the place of its answer in a triple."""
        return [(2, (h, r, t)), (2, (t, r + R, h)) if model.reciprocal else (0, (h, r, t))]

    def answered(place: int, triple: tuple[int, int, int], by: int) -> tuple[int, int, int]:
        return (by, *triple[1:]) if place == 0 else (*triple[:2], by)

    for fact in FACTS.tolist():  # the new entity is one more wrong answer to every question of training
        equations += [(linear(*answered(place, triple, NEW)), W0, 0.0) for place, triple in questions(*fact)]
    for fact in THEIRS.tolist():
        for place, triple in questions(*fact):
            equations.append((linear(*triple), 1.0, float(targets[triple[1]])))
            if triple[place] != NEW:  # it asks: every other entity is a wrong answer
                wrong = set(range(model.n_entities)) - {triple[place]}
                equations += [(linear(*answered(place, triple, other)), W0, 0.0) for other in wrong]
    strength = RIDGE * float(targets.square().mean() / rows.square().mean())
    equations += [(unit, strength, 0.0) for unit in units]
    pulls, weights, wanted = zip(*equations, strict=True)
    roots = torch.tensor(weights, dtype=rows.dtype).sqrt()
    right = torch.tensor(wanted, dtype=rows.dtype) * roots
    return torch.linalg.lstsq(torch.stack(pulls) * roots[:, None], right).solution


def free_model(name: str, *args: object, **settings: object) -> BilinearModel:
    """A tiny model whose rows can be solved for."""
    model = tiny_model(name, *args, **settings)
    if not model.rows_are_free:
        pytest.skip("its rows are formed from points")
    return model


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("bound", ["tanh", "identity"])
def test_a_row_is_the_least_squares_solution(model_name: str, bound: str, reciprocal: bool) -> None:
    model = free_model(model_name, bound, reciprocal=reciprocal)
    targets = torch.rand(len(model.relations), generator=torch.Generator().manual_seed(1)).double() + 0.5
    fold_in = FoldIn(model, FACTS, targets, unobserved_weight=W0, ridge=RIDGE)
    rows = torch.cat([model.entity_rows().detach(), torch.full((1, model.entity_width()), torch.nan)])
    torch.testing.assert_close(fold_in.row(NEW, THEIRS, rows), twin(model, targets))


def test_the_weights_give_the_row_back(model_name: str) -> None:
    model = free_model(model_name)
    row = torch.linspace(-0.99, 0.99, model.entity_width(), dtype=torch.float64)
    torch.testing.assert_close(model.bounded(model.unbounded(row)), row)
    beyond = model.bounded(model.unbounded(row * 50))
    assert beyond.abs().max() < 1
    assert torch.isfinite(model.unbounded(row * 50)).all()
    free = tiny_model(model_name, "identity")
    torch.testing.assert_close(free.unbounded(row * 50), row * 50)


@pytest.mark.parametrize("reciprocal", [True, False])
def test_targets_are_the_mean_scores_of_facts(reciprocal: bool) -> None:
    model = tiny_model("complex", reciprocal=reciprocal)
    rows, relations = model.entity_rows(), model.relation_rows()
    found = mean_fact_scores(model, FACTS[:3])
    first = model.score_rows(rows[0], relations[0], rows[1])
    second = [model.score_rows(rows[2], relations[1], rows[t]) for t in (3, 4)]
    torch.testing.assert_close(found[0], first)
    torch.testing.assert_close(found[1], sum(second) / 2)
    if reciprocal:
        torch.testing.assert_close(found[3], model.score_rows(rows[1], relations[3], rows[0]))
    else:
        torch.testing.assert_close(found[2], (first + sum(second)) / 3)  # no fact of its own: the mean of all


@pytest.mark.parametrize(
    ("options", "message"), [({"ridge": 0.0}, "above 0"), ({"unobserved_weight": -1.0}, "not be negative")]
)
def test_bad_weights(options: dict[str, float], message: str) -> None:
    model = tiny_model("distmult")
    with pytest.raises(SettingError, match=message):
        FoldIn(model, FACTS, torch.ones(3), **{"unobserved_weight": W0, "ridge": RIDGE} | options)
