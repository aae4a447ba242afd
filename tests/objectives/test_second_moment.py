"""The second-moment objective against plain enumeration in float64, gradients included."""

from __future__ import annotations

import pytest
import torch

import staypositive as sp
from conftest import ladder_graph, planted_graph
from staypositive.errors import SettingError
from staypositive.models import MODELS, BilinearModel, Scorer, build_model
from staypositive.objectives import Batch, OneVsAll, SecondMoment
from staypositive.objectives.statistics import Candidates, gram
from staypositive.training import AdaGrad, SteppedEngine
from stepping import stepped

E, R = 6, 3
DRAW = torch.Generator().manual_seed(0)
FACTS = torch.stack([torch.randint(n, (8,), generator=DRAW) for n in (E, R, E)], dim=1)
FACTS[1] = torch.tensor([FACTS[0, 0], FACTS[0, 1], (FACTS[0, 2] + 1) % E])  # two facts of one query


def make_model(name: str, reciprocal: bool = False, **settings: object) -> BilinearModel:
    model = build_model(name, E, R, 4, bound="identity", reciprocal=reciprocal, **settings).double()
    model.initialise(torch.Generator().manual_seed(1), 0.7)
    return model


def batch_of(model: BilinearModel, objective: SecondMoment, facts: torch.Tensor = FACTS) -> Batch:
    heads, relations, tails = facts.T
    prepared = objective.prepare(facts, E, len(model.relations))
    return Batch(
        heads, relations, tails, len(facts), model.entities, model.relations, model.entity_rows(),
        model.relation_rows(), 1, torch.tensor(3), prepared,
    )  # fmt: skip


def enumerated(model: BilinearModel, objective: SecondMoment, facts: torch.Tensor) -> torch.Tensor:
    """The same loss, triple by triple."""
    rows, relations = model.entity_rows(), model.relation_rows()
    n_relations = len(relations)
    grid = torch.cartesian_prod(torch.arange(E), torch.arange(n_relations), torch.arange(E))
    scores = model.score_rows(rows[grid[:, 0]], relations[grid[:, 1]], rows[grid[:, 2]]).view(E, n_relations, E)
    counts = torch.bincount(facts[:, 1], minlength=n_relations).double()
    weights = counts[facts[:, 1]] ** -objective.relation_power
    weights = weights / weights.mean()
    seen: dict[tuple[str, int, int], int] = {}
    for h, r, t in facts.tolist():
        for key in (("tail", h, r), ("head", r, t), ("relation", h, t)):
            seen[key] = seen.get(key, 0) + 1
    total = torch.zeros((), dtype=torch.float64)
    sides = {"tail": 1.0, "head": 0.0 if objective.reciprocal else objective.head_weight,
             "relation": objective.relation_weight}  # fmt: skip
    for (h, r, t), weight in zip(facts.tolist(), weights, strict=True):
        own = scores[h, r, t]
        for side, share in sides.items():
            w0 = objective.relation_unobserved_weight if side == "relation" else objective.unobserved_weight
            answers = {"tail": scores[h, r], "head": scores[:, r, t], "relation": scores[h, :, t]}[side]
            loss = (1 - own) ** 2 - w0 * own**2
            if side != "relation":
                size = (answers**2).sum().sqrt()
                likely = torch.log(own.clamp(min=0) / size + 0.01) * min(1.0, float(size.detach()))
                loss = loss - objective.likelihood_weight * likely
            key = {"tail": ("tail", h, r), "head": ("head", r, t), "relation": ("relation", h, t)}[side]
            if objective.weighting == "triple":
                loss = loss + w0 * (answers**2).sum()
            elif objective.weighting == "query":
                loss = loss + w0 * (answers**2).sum() / seen[key]
            total = total + share * weight * loss / len(facts)
    if objective.weighting == "all":
        for side, share in sides.items():
            w0 = objective.relation_unobserved_weight if side == "relation" else objective.unobserved_weight
            total = total + share * w0 * (scores**2).sum() / len(facts)
    return total


@pytest.mark.parametrize("likelihood_weight", [0.0, 0.7])
@pytest.mark.parametrize("weighting", ["triple", "query", "all"])
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_loss_and_gradient_equal_enumeration(
    name: str, reciprocal: bool, weighting: str, likelihood_weight: float
) -> None:
    objective = SecondMoment(
        unobserved_weight=0.07, relation_weight=0.4, relation_unobserved_weight=0.2, head_weight=0.6, n3=0,
        weighting=weighting, reciprocal=reciprocal, relation_power=0.5, likelihood_weight=likelihood_weight,
    )  # fmt: skip
    model = make_model(name, reciprocal)
    facts = FACTS
    if reciprocal:
        facts = torch.cat([FACTS, FACTS.flip(1) + torch.tensor([0, R, 0])])
    terms = objective.terms(model, batch_of(model, objective, facts))
    assert ("heads" in terms) == (not reciprocal)
    loss, expected = torch.stack(list(terms.values())).sum(), enumerated(model, objective, facts)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-9)
    tables = tuple(model.parameters())
    for ours, theirs in zip(torch.autograd.grad(loss, tables), torch.autograd.grad(expected, tables), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 50, 4), (3, 2, 4), (40, 50, 4), (2, 5, 30)])
def test_both_ways_of_summing_squares(shape: tuple[int, int, int]) -> None:
    n, count, width = shape
    draw = torch.Generator().manual_seed(0)
    queries = torch.randn(n, width, generator=draw, dtype=torch.float64)
    rows = torch.randn(count, width, generator=draw, dtype=torch.float64)
    expected = (queries @ rows.T).square().sum(1)
    torch.testing.assert_close(Candidates.of(rows, n).sum_squares(queries), expected)
    torch.testing.assert_close(Candidates(rows, gram(rows)).sum_squares(queries), expected)
    assert (Candidates.of(rows, n).given is not None) == (shape in ((3, 50, 4), (40, 50, 4)))


def test_the_gradient_of_a_gram_matrix() -> None:
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gram, rows)


def test_sum_of_all_squares(model_name: str) -> None:
    model = build_model(model_name, 5, 3, 4).double()
    model.initialise(torch.Generator().manual_seed(1), 0.8)
    rows, relations = model.entity_rows(), model.relation_rows()
    heads, tails = rows[:2], rows[1:]
    grid = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(1, 5))
    found = model.sum_of_squares(heads.T @ heads, relations, tails.T @ tails)
    expected, tables = model.score(*grid.T).square().sum(), tuple(model.parameters())
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(torch.autograd.grad(found, tables), torch.autograd.grad(expected, tables), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_n3_cubes_the_moduli() -> None:
    model = make_model("complex")
    objective = SecondMoment(n3=0.5)
    term = objective.terms(model, batch_of(model, objective))["n3"]
    real, imaginary = model.entities[FACTS[:, 0]].chunk(2, dim=1)
    heads = (real**2 + imaginary**2).sqrt().pow(3).sum()
    tails = torch.complex(*model.entities[FACTS[:, 2]].chunk(2, dim=1)).abs().pow(3).sum()
    relations = torch.complex(*model.relations[FACTS[:, 1]].chunk(2, dim=1)).abs().pow(3).sum()
    torch.testing.assert_close(term, 0.5 * (heads + tails + relations) / len(FACTS))
    plain = make_model("simple")
    rows = torch.cat([plain.entities[FACTS[:, 0]], plain.entities[FACTS[:, 2]], plain.relations[FACTS[:, 1]]])
    term = OneVsAll(n3=0.5).terms(plain, batch_of(plain, objective))["n3"]
    torch.testing.assert_close(term, 0.5 * rows.abs().pow(3).sum() / len(FACTS))


def test_n3_of_frequent_entities_may_weigh_less() -> None:
    model = make_model("complex")
    batch = batch_of(model, SecondMoment(n3=0.3, n3_power=0.5))
    found = SecondMoment(n3=0.3, n3_power=0.5).terms(model, batch)["n3"]
    counts = [0] * E
    for h, _, t in FACTS.tolist():
        counts[h] += 1
        counts[t] += 1
    weights = {e: counts[e] ** -0.5 for e in range(E) if counts[e]}
    mean = sum(weights[h] + weights[t] for h, _, t in FACTS.tolist()) / (2 * len(FACTS))
    rows, relations = model.entity_rows(), model.relation_rows()
    cubes, relation_cubes = (model.moduli(part).pow(3).sum(1) for part in (rows, relations))
    expected = sum(
        weights[h] / mean * cubes[h] + relation_cubes[r] + weights[t] / mean * cubes[t] for h, r, t in FACTS.tolist()
    )
    torch.testing.assert_close(found, 0.3 * expected / len(FACTS), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["complex", "analogy", "quaternion"])
def test_n3_has_a_gradient_at_zero(name: str) -> None:
    model = make_model(name).float()
    model.entities.data.zero_()
    objective = SecondMoment()
    term = objective.terms(model, batch_of(model, objective))["n3"]
    assert torch.isfinite(torch.autograd.grad(term, model.entities)[0]).all()


def test_dropout_acts_on_what_queries_are_made_from() -> None:
    objective = SecondMoment(relation_weight=0, n3=0)
    model = make_model("distmult", dropout=0.5)
    dropped = objective.terms(model, batch_of(model, objective))["tails"]
    model.eval()
    plain = objective.terms(model, batch_of(model, objective))["tails"]
    assert not torch.isclose(dropped, plain)


def test_reciprocal_scores_are_means_and_ranking_asks_one_direction(model_name: str) -> None:
    model = build_model(model_name, E, R, 4, reciprocal=True).double()
    model.initialise(torch.Generator().manual_seed(1))
    rows, relations = model.entity_rows(), model.relation_rows()
    assert len(relations) == 2 * R

    def one_way(h: int, r: int, t: int) -> torch.Tensor:
        return model.score_rows(rows[h], relations[r], rows[t])

    grid = torch.cartesian_prod(torch.arange(E), torch.arange(R), torch.arange(E))
    means = torch.stack([(one_way(h, r, t) + one_way(t, r + R, h)) / 2 for h, r, t in grid.tolist()]).view(E, R, E)
    torch.testing.assert_close(model.score(*grid.T).view(E, R, E), means)
    scorer, h, r, t = Scorer(model), torch.tensor([0, 2]), torch.tensor([1, 0]), torch.tensor([3, 3])
    torch.testing.assert_close(scorer.triples(h, r, t), means[h, r, t])
    torch.testing.assert_close(scorer.tails(h, r), means[h, r])
    torch.testing.assert_close(scorer.heads(r, t), means[:, r, t].T)
    torch.testing.assert_close(scorer.relations(h, t), means[h, :, t])
    asked = scorer.asked()
    torch.testing.assert_close(asked.tails(h, r)[1, 4], one_way(2, 0, 4))
    torch.testing.assert_close(asked.heads(r, t)[0, 5], one_way(3, 1 + R, 5))
    assert asked.asked() is asked
    torch.testing.assert_close(model.mean_score(), means.mean())


def test_a_run_with_reciprocal_relations(tmp_path) -> None:
    graph = planted_graph()
    options = {"objective": "second-moment", "dim": 8, "epochs": 40, "batch_size": 64, "learning_rate": 0.1}
    run = sp.fit(graph, model="complex", unobserved_weight=0.05, **options)
    assert run.history[0].terms["tails"] > run.history[-1].terms["tails"] > 0
    assert 0.5 < run.history[0].terms["tails"] < 1.5  # a mean a fact
    report = run.evaluate("test")
    assert report["classification"]["all"]["uncalibrated"]["auc"] > 0.95
    allies = run.predict(head="p0", relation="ally", top=5)
    assert all(int(label[1:]) % 2 == 0 for label in allies["tail"])
    run.save(tmp_path / "run")
    again = sp.load_run(tmp_path / "run")
    assert again.model.reciprocal
    assert again.evaluate("test") == report


@pytest.mark.parametrize("model_name", ["complex", "rescal", "tucker", "transe"])
def test_every_weighting_learns(model_name: str) -> None:
    graph = ladder_graph() if model_name == "transe" else planted_graph()
    for weighting in ("triple", "query", "all"):
        run = sp.fit(
            graph, model=model_name, objective="second-moment", weighting=weighting, dim=6, epochs=60, batch_size=64,
            init_scale=0.5, unobserved_weight=0.01, n3=0.001,
        )  # fmt: skip
        assert run.evaluate("test")["classification"]["all"]["uncalibrated"]["auc"] > 0.85


def test_steps_do_not_depend_on_what_else_is_prepared() -> None:
    """The same facts in the same order give the same step, through the epoch or by hand."""
    objective = SecondMoment(weighting="query", reciprocal=False)

    def engine() -> SteppedEngine:
        model = make_model("distmult")
        tables = {"entities": model.entities.data, "relations": model.relations.data}
        return stepped("autograd", model, objective, AdaGrad(tables, 0.1), FACTS, len(FACTS), 0)

    whole, by_hand = engine(), engine()
    whole.run_epoch()
    order = torch.randperm(len(FACTS), generator=torch.Generator().manual_seed(0))
    by_hand.step(*by_hand.facts.take(order))
    torch.testing.assert_close(whole.model.entities, by_hand.model.entities)


@pytest.mark.parametrize(
    "options",
    [
        {"n3": -1.0},
        {"unobserved_weight": -0.1},
        {"weighting": "paper"},
        {"head_weight": -2.0},
        {"gram_update_interval": 0},
    ],
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=r"must be at least [01], got|one of triple"):
        SecondMoment(**options)
