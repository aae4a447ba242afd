"""Objectives against their formulas, written out plainly."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import softplus

from conftest import tiny_model
from staypositive.errors import SettingError
from staypositive.models import BilinearModel, build_model
from staypositive.models.hashing import step_keys
from staypositive.objectives import OBJECTIVES, Batch, NegativeSampling, OneVsAll, StayPositive, build_objective

FACTS = torch.tensor([(0, 0, 1), (2, 1, 2), (6, 0, 0), (0, 0, 1)])


def whole_batch(model: BilinearModel, triples: torch.Tensor = FACTS, n_facts: int = len(FACTS)) -> Batch:
    """A batch whose rows are all rows, so that positions are ids."""
    heads, relations, tails = triples.T
    return Batch(
        heads, relations, tails, n_facts, model.entities, model.relations,
        model.entity_rows(), model.relation_rows(), 5, torch.tensor(0),
    )  # fmt: skip


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("weighting", ["paper", "authors"])
def test_stay_positive_terms(power: int, weighting: str) -> None:
    model = tiny_model("simple", prior_score=-1.5)
    objective = StayPositive(penalty_weight=0.3, power=power, scope="all", weighting=weighting)
    terms = objective.terms(model, whole_batch(model))
    grid = torch.cartesian_prod(torch.arange(7), torch.arange(3), torch.arange(7))
    total = model.score(*grid.T).sum()
    share = 5 if weighting == "authors" else 1
    torch.testing.assert_close(terms["facts"], softplus(-(model.score(*FACTS.T) - 1.5)).sum())
    torch.testing.assert_close(terms["penalty"], 0.3 * total.abs() ** power / share)
    assert objective.touches_all_rows
    assert objective.negatives_per_fact == 0
    assert not StayPositive().touches_all_rows


def test_negative_sampling_draws_and_scores() -> None:
    model = tiny_model("distmult", "identity")
    objective = NegativeSampling(negatives=300, l2=0.2)
    keys = step_keys(0, 0, 2, torch.device("cpu"))
    examples, other = objective.examples(FACTS.expand(2, -1, -1), 7, keys)
    assert not torch.equal(examples, other)  # a step draws for itself
    assert torch.equal(objective.examples(FACTS[None], 7, keys[:1])[0], examples)  # whoever draws
    true, false = examples[:4], examples[4:].view(300, 4, 3)
    assert torch.equal(true, FACTS)
    assert torch.equal(false[:, :, 1], FACTS[:, 1].expand(300, 4))
    head_changed, tail_changed = false[:, :, 0] != FACTS[:, 0], false[:, :, 2] != FACTS[:, 2]
    assert not (head_changed & tail_changed).any()  # one side at a time
    for changed in (head_changed, tail_changed):  # each side half the time, and 6 of 7 draws differ
        assert changed.double().mean() == pytest.approx(0.5 * 6 / 7, abs=0.05)
    assert set(false[:, :, 0].flatten().tolist()) == set(range(7))
    terms = objective.terms(model, whole_batch(model, examples))
    torch.testing.assert_close(terms["facts"], softplus(-model.score(*true.T)).sum())
    torch.testing.assert_close(terms["negatives"], softplus(model.score(*examples[4:].T)).sum())
    squares = model.entities.square().sum() + model.relations.square().sum()
    torch.testing.assert_close(terms["l2"], 0.2 / 2 / 5 * squares)
    assert objective.touches_all_rows
    assert objective.negatives_per_fact == 300
    assert "l2" not in NegativeSampling().terms(model, whole_batch(model, FACTS, 2))


def test_one_vs_all_is_cross_entropy_over_every_answer() -> None:
    model = tiny_model("complex", "identity")
    terms = OneVsAll(l2=0.1).terms(model, whole_batch(model))
    grid = torch.cartesian_prod(torch.arange(7), torch.arange(3), torch.arange(7))
    scores = model.score(*grid.T).view(7, 3, 7)
    h, r, t = FACTS.T
    tails = torch.stack([scores[h[i], r[i]].logsumexp(0) - scores[h[i], r[i], t[i]] for i in range(4)]).mean()
    heads = torch.stack([scores[:, r[i], t[i]].logsumexp(0) - scores[h[i], r[i], t[i]] for i in range(4)]).mean()
    torch.testing.assert_close(terms["tails"], tails)
    torch.testing.assert_close(terms["heads"], heads)
    assert set(terms) == {"tails", "heads", "l2"}
    assert OneVsAll().touches_all_rows


def test_one_vs_all_drops_the_query_in_training_alone() -> None:
    model = tiny_model("complex", "identity", dropout=0.5)
    plain = OneVsAll().terms(tiny_model("complex", "identity"), whole_batch(model))["tails"]
    dropped = OneVsAll().terms(model, whole_batch(model))["tails"]
    assert not torch.isclose(dropped, plain)
    model.eval()
    torch.testing.assert_close(OneVsAll().terms(model, whole_batch(model))["tails"], plain)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_alike_bit_by_bit_with_several_threads(name: str) -> None:
    triples = torch.randint(0, 50, (2000, 3), generator=torch.Generator().manual_seed(0))
    model = build_model("complex", 50, 50, 32, bound="identity")
    model.initialise(torch.Generator().manual_seed(0))
    torch.set_num_threads(2)
    found = []
    for _ in range(5):
        batch = whole_batch(model, triples, len(triples))
        loss = torch.stack(list(build_objective(name).terms(model, batch).values())).sum()
        found.append(torch.autograd.grad(loss, model.entities)[0])
    assert all(torch.equal(one, found[0]) for one in found)


def test_building_by_name() -> None:
    assert build_objective("negative-sampling", negatives=3) == NegativeSampling(negatives=3)
    with pytest.raises(SettingError, match="expected an objective among stay-positive"):
        build_objective("margin")
    with pytest.raises(SettingError, match="has no option 'negatives'"):
        build_objective("stay-positive", negatives=1)
    with pytest.raises(SettingError, match="one of batch, all"):
        build_objective("stay-positive", scope="some")


@pytest.mark.parametrize(
    ("name", "options"),
    [("stay-positive", {"penalty_weight": -1}), ("negative-sampling", {"negatives": 0}), ("1vsall", {"l2": -1})],
)
def test_bad_values(name: str, options: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=r"must|at least"):
        build_objective(name, **options)


def test_every_objective_gives_finite_named_terms(model_name: str) -> None:
    """Whatever is registered works with whatever model is registered."""
    for objective_class in OBJECTIVES.values():
        objective = objective_class()
        model = tiny_model(model_name, objective.defaults.bound, dropout=0.2)
        examples = objective.examples(FACTS[None], 7, torch.zeros(1, dtype=torch.int64))[0]
        terms = objective.terms(model, whole_batch(model, examples))
        assert terms
        assert all(term.shape == () and torch.isfinite(term) for term in terms.values())
