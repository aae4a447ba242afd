"""Several models as one: the weighted sum of their scores, with all that the contract derives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conftest import tiny_model
from staypositive.errors import SettingError
from staypositive.models import ENSEMBLE, BilinearModel, Ensemble, Scorer, build_model, combine_models

GRID = torch.cartesian_prod(torch.arange(7), torch.arange(3), torch.arange(7))
WEIGHTS = [0.7, 0.3]


def pair(name: str, bound: str = "tanh", **settings: Any) -> tuple[BilinearModel, BilinearModel, BilinearModel]:
    one = tiny_model(name, bound=bound, seed=1, prior_score=2.0, **settings)
    other = tiny_model("complex", bound="identity", dim=3, seed=2, **settings)
    return one, other, combine_models([one, other], [name, "complex"], WEIGHTS)


@pytest.mark.parametrize("bound", ["tanh", "identity"])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_scores_add_up_by_weight(model_name: str, bound: str, reciprocal: bool) -> None:
    one, other, ensemble = pair(model_name, bound=bound, reciprocal=reciprocal)
    expected = 0.7 * one.score(*GRID.T) + 0.3 * other.score(*GRID.T)
    torch.testing.assert_close(ensemble.score(*GRID.T), expected)
    torch.testing.assert_close(ensemble.mean_score(), expected.mean())
    torch.testing.assert_close(ensemble.logit(*GRID.T), expected + 0.7 * one.prior_score)
    scorer, (heads, relations, tails) = Scorer(ensemble), GRID[::11].T
    every = expected.view(7, 3, 7)
    torch.testing.assert_close(scorer.tails(heads, relations), every[heads, relations])
    torch.testing.assert_close(scorer.heads(relations, tails), every[:, relations, tails].T)
    torch.testing.assert_close(scorer.relations(heads, tails), every[heads, :, tails])


def test_squares_and_moments_are_those_of_the_sum(model_name: str) -> None:
    _, _, ensemble = pair(model_name)
    rows = ensemble.entity_rows()
    squares = ensemble.score(*GRID.T).square().sum()
    torch.testing.assert_close(
        ensemble.sum_of_squares(rows.T @ rows, ensemble.relation_rows(), rows.T @ rows), squares
    )


def test_built_again_from_settings_and_weights(model_name: str) -> None:
    _, _, ensemble = pair(model_name, reciprocal=True)
    ensemble.backward_weight = 0.25
    again = build_model(ENSEMBLE, **ensemble.settings()).double()
    again.load_state_dict(ensemble.state_dict())
    torch.testing.assert_close(again.score(*GRID.T), ensemble.score(*GRID.T))
    assert again.backward_weight == 0.25
    assert isinstance(again, Ensemble)
    with torch.device("meta"):
        outline = build_model(ENSEMBLE, **ensemble.settings())
    assert {k: v.shape for k, v in outline.state_dict().items()} == {
        k: v.shape for k, v in ensemble.state_dict().items()
    }


def test_rows_can_be_solved_for_where_all_members_allow_it() -> None:
    _, _, ensemble = pair("simple")
    rows = ensemble.entity_rows()
    assert ensemble.rows_are_free
    torch.testing.assert_close(ensemble.form_entity_rows(ensemble.unbounded(rows)), rows)
    assert not pair("transe")[2].rows_are_free


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"members": []}, "needs members"),
        ({"members": [{"model": "distmult", "weight": 0.0, "dim": 2}]}, "positive numbers"),
        ({"members": [{"model": "distmult", "weight": float("nan"), "dim": 2}]}, "positive numbers"),
        ({"members": [{"model": "distmult", "weight": 1e308, "dim": 2}]}, "positive numbers"),
        ({"members": [{"model": "distmult", "weight": "0.3", "dim": 2}]}, "positive numbers"),
        ({"members": [{"model": "distmult", "weight": True, "dim": 2}]}, "positive numbers"),
        ({"members": [{"model": ENSEMBLE, "weight": 1.0, "dim": 2, "members": []}]}, "cannot be a member"),
        ({"members": [{"model": "distmult", "weight": 1.0, "dim": 2, "reciprocal": True}]}, "reciprocal"),
        ({"members": [{"model": "nought", "weight": 1.0, "dim": 2}]}, "expected a model"),
        ({"members": [{"model": "distmult", "weight": 1.0, "dim": 2}], "backward_weight": 2.0}, "backward_weight"),
    ],
)
def test_what_cannot_be_combined_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        build_model(ENSEMBLE, 5, 2, 2, bound="identity", **change)


def test_models_of_other_sizes_are_refused() -> None:
    with pytest.raises(SettingError, match="same entities"):
        combine_models([build_model("distmult", 5, 2, 4), build_model("distmult", 6, 2, 4)], ["distmult"] * 2)


def test_models_go_by_their_own_names() -> None:
    two = [build_model("complex", 5, 2, 2, bound="identity"), build_model("cp", 5, 2, 2, bound="identity")]
    with pytest.raises(SettingError, match="said to be cp, and is not"):
        combine_models(two, ["cp", "complex"])
    with pytest.raises(SettingError, match="there are none"):
        combine_models([], [])


def test_likeness_is_the_mean_of_the_members_likeness() -> None:
    one, other, ensemble = pair("simple")
    rows = [model.entity_rows().detach() for model in (one, other, ensemble)]
    alike = [m.directions(r) @ m.directions(r).T for m, r in zip((one, other, ensemble), rows, strict=True)]
    torch.testing.assert_close(alike[2], 0.7 * alike[0] + 0.3 * alike[1])
    torch.testing.assert_close(alike[2].diag(), torch.ones(7, dtype=torch.float64))


def test_a_members_own_backward_weight_is_not_kept() -> None:
    one = tiny_model("complex", reciprocal=True, backward_weight=0.5)
    ensemble = combine_models([one, one], ["complex"] * 2)
    assert ensemble.backward_weight == 0
    assert "backward_weight" not in ensemble.settings()["members"][0]


def test_ranking_weighs_the_backward_reading(model_name: str) -> None:
    model = tiny_model(model_name, reciprocal=True)
    plain, mean = Scorer(model).asked(), Scorer(model)
    heads, relations, tails = GRID[::11].T
    own = {
        "tails": plain.tails(heads, relations),
        "heads": plain.heads(relations, tails),
        "triples": plain.triples(heads, relations, tails),
    }
    model.backward_weight = 0.3
    mixed = Scorer(model).asked()

    def wanted(name: str, means: torch.Tensor) -> torch.Tensor:
        return own[name] + 0.3 * (2 * means - own[name])  # the mean holds half of each reading

    torch.testing.assert_close(mixed.tails(heads, relations), wanted("tails", mean.tails(heads, relations)))
    torch.testing.assert_close(mixed.heads(relations, tails), wanted("heads", mean.heads(relations, tails)))
    both = mean.triples(heads, relations, tails)
    torch.testing.assert_close(mixed.triples(heads, relations, tails), wanted("triples", both))
    torch.testing.assert_close(
        Scorer(model).triples(heads, relations, tails), both
    )  # a triple's score stays the mean
    queries, _ = mixed.forms(1)
    torch.testing.assert_close(queries(mixed.entity_rows) @ mixed.entity_rows.T, mixed.tails(
        torch.arange(7), torch.ones(7, dtype=torch.long)))  # fmt: skip
    gradients = mixed.relation_gradients(heads, tails)
    rows = torch.cat([mixed.relation_rows[relations], mixed.relation_rows[relations + 3]], dim=-1)
    torch.testing.assert_close((gradients * rows).sum(-1), mixed.triples(heads, relations, tails))
