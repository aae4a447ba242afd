"""Every model against a float64 brute-force twin: values and gradients."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from conftest import tiny_model
from staypositive.errors import SettingError
from staypositive.models import (
    MODELS,
    TABLES,
    BilinearModel,
    RowMoments,
    Scorer,
    build_model,
    evaluating,
    score_moments,
)

BOUNDS = pytest.mark.parametrize("bound", ["tanh", "identity"])


def brute_score(model: BilinearModel, name: str, h: int, r: int, t: int) -> Tensor:
    """The score by its textbook definition, entry by entry, from the raw weights."""
    squash = torch.tanh if model.bound == "tanh" else (lambda x: x)
    head, rel, tail = squash(model.entities[h]), squash(model.relations[r]), squash(model.entities[t])
    d, total = model.dim, torch.zeros((), dtype=head.dtype)
    if name == "rescal":
        for i, j in itertools.product(range(d), repeat=2):
            total = total + head[i] * rel[i * d + j] * tail[j]
        return total * (5 / d**2 if model.bound == "tanh" else 1)
    if name == "ntn":
        k = model.slices
        for s, i, j in itertools.product(range(k), range(d), range(d)):
            total = total + rel[s] * head[i] * rel[k + s * d * d + i * d + j] * tail[j]
        return total * (5 / (k * d**2) if model.bound == "tanh" else 1)
    if name == "tucker":
        core = squash(model.core)
        for s, i, j in itertools.product(range(model.slices), range(d), range(d)):
            total = total + rel[s] * head[i] * core[s, i * d + j] * tail[j]
        return total * (5 / (model.slices * d**2) if model.bound == "tanh" else 1)
    if name == "transe":
        offset = 9 * d * (1 + rel[d]) / 2 if model.bound == "tanh" else rel[d]
        distance = sum((head[i] + rel[i] - tail[i]) ** 2 for i in range(d))
        return (offset - distance) * (5 / (9 * d) if model.bound == "tanh" else 1)
    if name == "hole":
        for k, i in itertools.product(range(d), repeat=2):
            total = total + rel[k] * head[i] * tail[(i + k) % d]
        return total * (5 / d**2 if model.bound == "tanh" else 1)
    if name == "complex":
        hc, rc, tc = (torch.complex(x[:d], x[d:]) for x in (head, rel, tail))
        return (hc * rc * tc.conj()).sum().real * (5 / (2 * d) if model.bound == "tanh" else 1)
    if name == "analogy":
        hc, rc, tc = (torch.complex(x[d : 2 * d], x[2 * d :]) for x in (head, rel, tail))
        total = (head[:d] * rel[:d] * tail[:d]).sum() + (hc * rc * tc.conj()).sum().real
        return total * (5 / (3 * d) if model.bound == "tanh" else 1)
    if name == "quaternion":
        a, b = head.view(4, d), rel.view(4, d)
        product = torch.stack(
            [
                a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
                a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
                a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
                a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
            ]
        )
        return (product * tail.view(4, d)).sum() * (5 / (8 * d) if model.bound == "tanh" else 1)
    scale = 5 / d if model.bound == "tanh" else 1
    if name == "distmult":
        return (head * rel * tail).sum() * scale
    if name == "cp":
        return (head[:d] * rel * tail[d:]).sum() * scale
    assert name == "simple", f"write the textbook definition of {name} here"
    both = (head[:d] * rel[:d] * tail[d:]).sum() + (tail[:d] * rel[d:] * head[d:]).sum()
    return both / 2 * scale


def all_brute(model: BilinearModel, name: str) -> Tensor:
    """Every score, shape (|E|, |R|, |E|)."""
    E, R = model.n_entities, model.n_relations
    scores = [brute_score(model, name, h, r, t) for h in range(E) for r in range(R) for t in range(E)]
    return torch.stack(scores).view(E, R, E)


def gradients(model: BilinearModel, value: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, tuple(model.parameters()), retain_graph=True, materialize_grads=True)


def assert_same(model: BilinearModel, ours: Tensor, brute: Tensor) -> None:
    """Equal values, and equal gradients of a random combination of them."""
    torch.testing.assert_close(ours, brute)
    probe = torch.randn(brute.shape, dtype=brute.dtype, generator=torch.Generator().manual_seed(3))
    for a, b in zip(gradients(model, (ours * probe).sum()), gradients(model, (brute * probe).sum()), strict=True):
        torch.testing.assert_close(a, b)


@BOUNDS
def test_scores_equal_the_textbook_definition(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    triples = torch.tensor([(0, 0, 1), (2, 1, 2), (6, 2, 0), (3, 1, 5)])
    brute = torch.stack([brute_score(model, model_name, *t.tolist()) for t in triples])
    assert_same(model, model.score(*triples.T), brute)
    assert_same(model, model.logit(*triples.T), brute + model.prior_score)


@BOUNDS
def test_all_heads_tails_and_relations(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    everything = all_brute(model, model_name)
    rows, relations = model.entity_rows(), model.relation_rows()
    heads, rels, tails = torch.tensor([0, 4]), torch.tensor([2, 1]), torch.tensor([6, 4])
    assert_same(model, model.tail_query(rows[heads], relations[rels]) @ rows.T, everything[heads, rels])
    assert_same(model, model.head_query(rows[tails], relations[rels]) @ rows.T, everything[:, rels, tails].T)
    assert_same(model, model.relation_query(rows[heads], rows[tails]) @ relations.T, everything[heads, :, tails])


@BOUNDS
def test_scorer_gives_the_same_scores_by_every_route(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    everything, scorer = all_brute(model, model_name).detach(), Scorer(model)
    h, r, t = torch.tensor([1, 5]), torch.tensor([0, 2]), torch.tensor([3, 5])
    torch.testing.assert_close(scorer.triples(h, r, t), everything[h, r, t])
    torch.testing.assert_close(scorer.tails(h, r), everything[h, r])
    torch.testing.assert_close(scorer.heads(r, t), everything[:, r, t].T)
    torch.testing.assert_close(scorer.relations(h, t), everything[h, :, t])
    assert scorer.device.type == "cpu"


@BOUNDS
@pytest.mark.parametrize("heads", [[0, 1, 2, 3, 4, 5, 6], [5], [2, 6, 1]])
def test_theorem_1_sum_over_arbitrary_subsets(model_name: str, bound: str, heads: list[int]) -> None:
    model = tiny_model(model_name, bound)
    relations, tails = [0, 2], [1, 3, 4, 5]
    brute = all_brute(model, model_name)[heads][:, relations][:, :, tails].sum()
    ours = model.sum_rows(
        model.entity_rows(torch.tensor(heads)),
        model.relation_rows(torch.tensor(relations)),
        model.entity_rows(torch.tensor(tails)),
    )
    assert_same(model, ours, brute)


@BOUNDS
def test_mean_of_all_scores(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    assert_same(model, model.mean_score(), all_brute(model, model_name).mean())


@BOUNDS
def test_moments_of_a_query(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    members = torch.tensor([0, 2, 3, 6])
    scores = all_brute(model, model_name)[[1, 4], [0, 2]][:, members]
    query = model.tail_query(model.entity_rows(torch.tensor([1, 4])), model.relation_rows(torch.tensor([0, 2])))
    moments = RowMoments.of(model.entity_rows(members))
    mean, variance = moments.of_query(query)
    assert moments.count == 4
    assert_same(model, mean, scores.mean(1))
    assert_same(model, variance, scores.var(1, correction=0))


@BOUNDS
def test_moments_of_a_relation(model_name: str, bound: str) -> None:
    model = tiny_model(model_name, bound)
    everything = all_brute(model, model_name)
    heads, tails = torch.tensor([0, 1, 5]), torch.tensor([2, 3, 4, 6])
    row = model.relation_rows(torch.tensor(1))
    found = score_moments(
        lambda rows: model.tail_query(rows, row),
        lambda rows: model.head_query(rows, row),
        RowMoments.of(model.entity_rows(heads)),
        RowMoments.of(model.entity_rows(tails)),
    )
    brute = everything[heads][:, 1][:, tails]
    assert_same(model, found.mean, brute.mean())
    assert_same(model, found.variance, brute.var(correction=0))


def test_no_score_leaves_the_bound(model_name: str) -> None:
    model = tiny_model(model_name, score_bound=3.0)
    with torch.no_grad():
        for table in model.parameters():
            table.mul_(50)
    scores = model.score(*torch.cartesian_prod(torch.arange(7), torch.arange(3), torch.arange(7)).T)
    assert scores.abs().max() <= 3.0 + 1e-12


@pytest.mark.parametrize("name", sorted(TABLES))
def test_block_scores_fill_the_bound(name: str) -> None:
    """Some corner of the cube of rows comes as near to I as one likes."""
    model = tiny_model(name, score_bound=3.0)
    best = model.entities.new_zeros(())
    for seed in range(40):  # climb: the best tail copies the query's signs, and so on in turn
        draw = torch.Generator().manual_seed(seed)
        h = torch.randn(model.entity_width(), generator=draw, dtype=torch.float64).sign()
        r = torch.randn(model.relation_width(), generator=draw, dtype=torch.float64).sign()
        for _ in range(6):
            t = model.tail_query(h, r).sign()
            r = model.relation_query(h, t).sign()
            h = model.head_query(t, r).sign()
        best = torch.maximum(best, model.tail_query(h, r).abs().sum())
    assert best == pytest.approx(3.0)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - TABLES.keys()))
def test_other_scores_fill_the_bound(name: str) -> None:
    """With every entry at 1 a sum of products is largest; a distance is least where nothing moves, at any offset."""
    model = tiny_model(name, score_bound=3.0)
    with torch.no_grad():
        for table in model.parameters():
            table.fill_(50)
        if name == "transe":
            model.relations[:, :-1] = 0
    assert float(model.score(*torch.tensor([[0], [0], [1]])).detach()) == pytest.approx(3.0)


def test_peak_of_each_table_is_the_designs_m() -> None:
    expected = {"distmult": 1, "cp": 1, "simple": 1, "complex": 2, "analogy": 3, "quaternion": 8}
    assert {name: table.max_score for name, table in TABLES.items()} == expected


def test_summands_add_up_to_the_score(model_name: str) -> None:
    model = tiny_model(model_name)
    h, r, t = torch.tensor([0, 4]), torch.tensor([2, 1]), torch.tensor([6, 4])
    parts = model.summands(model.entity_rows(h), model.relation_rows(r), model.entity_rows(t))
    assert_same(model, parts.sum(-1), model.score(h, r, t))


def test_dropout_masks_products_and_keeps_the_mean(model_name: str) -> None:
    model = tiny_model(model_name, dropout=0.4)
    rows, rels = model.entity_rows(torch.tensor([0])), model.relation_rows(torch.tensor([1]))
    parts = model.summands(rows, rels, rows)[0].detach()
    many = model.score_rows_with_dropout(
        rows.expand(4000, -1), rels.expand(4000, -1), rows.expand(4000, -1), 123
    ).detach()
    assert len(many.unique()) > 10
    spread = float((parts.square().sum() * 0.4 / 0.6).sqrt())  # of one dropped sum
    assert float(many.std()) == pytest.approx(spread, rel=0.1)
    assert float(many.mean()) == pytest.approx(float(parts.sum()), abs=5 * spread / math.sqrt(4000))
    model.eval()
    calm = model.score_rows_with_dropout(rows, rels, rows, 0)
    torch.testing.assert_close(calm, model.score_rows(rows, rels, rows))


def test_simple_draws_a_mask_a_term() -> None:
    model = tiny_model("simple", dropout=0.5)
    parts = model.summands(
        model.entity_rows(), model.relation_rows(torch.zeros(7, dtype=torch.long)), model.entity_rows()
    )
    assert parts.shape == (7, 2 * model.dim)


def test_hole_with_odd_dim_equals_circular_correlation() -> None:
    model = tiny_model("hole", "identity", dim=5)
    torch.testing.assert_close(model.score(*torch.tensor([[1], [2], [3]])), brute_score(model, "hole", 1, 2, 3)[None])


def test_settings_rebuild_the_model(model_name: str) -> None:
    model = tiny_model(model_name, score_bound=2.0, prior_score=-1.0, dropout=0.3)
    twin = build_model(model_name, **model.settings()).double()
    twin.load_state_dict(model.state_dict())
    ids = torch.tensor([[0, 1], [1, 2], [5, 6]])
    torch.testing.assert_close(twin.logit(*ids), model.logit(*ids))
    assert twin.settings() == model.settings()


def test_evaluating_puts_the_mode_back() -> None:
    model = tiny_model("distmult")
    model.train()
    with evaluating(model):
        assert not model.training
        assert not model.score(*torch.tensor([[0], [0], [0]])).requires_grad
    assert model.training
    with pytest.raises(IndexError), evaluating(model):
        model.score(*torch.tensor([[99], [0], [0]]))
    assert model.training
    model.eval()
    with evaluating(model):
        pass
    assert not model.training


def test_initialisation_follows_seed_and_scale() -> None:
    first, again, other = (tiny_model("complex", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.entities, again.entities)
    assert not torch.equal(first.entities, other.entities)
    default = build_model("complex", 200, 3, 25)
    default.initialise(torch.Generator().manual_seed(0))
    assert float(default.entities.detach().abs().max()) == pytest.approx(6 / 5, rel=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "at least 1"),
        ({"bound": "relu"}, "tanh, identity"),
        ({"score_bound": 0.0}, "positive"),
        ({"score_bound": math.inf}, "positive"),
        ({"prior_score": math.nan}, "finite"),
        ({"dropout": 1.0}, r"\[0, 1\)"),
    ],
)
def test_bad_settings_are_named(change: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        build_model("distmult", **{"n_entities": 2, "n_relations": 1, "dim": 2, **change})


def test_unknown_model_and_bad_slices() -> None:
    with pytest.raises(SettingError, match="expected a model among distmult"):
        build_model("rotate", 2, 1, 2)
    for name in ("ntn", "tucker"):
        with pytest.raises(SettingError, match="slices"):
            build_model(name, 2, 1, 2, slices=0)


def test_mean_squared_distance_is_a_distance_of_means_plus_spreads() -> None:
    """What Theorem 1 over lifted rows says in the plain: independent h, r and t each add their variance."""
    model = tiny_model("transe", "identity")
    points, moves, offsets = model.entities, model.relations[:, :-1], model.relations[:, -1]
    spread = sum(rows.var(0, correction=0).sum() for rows in (points, moves, points))
    assert_same(model, model.mean_score(), offsets.mean() - moves.mean(0).square().sum() - spread)


def test_tucker_with_a_diagonal_core_is_distmult() -> None:
    tucker, distmult = tiny_model("tucker", "identity"), tiny_model("distmult", "identity")
    core = torch.zeros(4, 4, 4, dtype=torch.float64)
    core[range(4), range(4), range(4)] = 1
    tucker.core.data = core.flatten(1)
    torch.testing.assert_close(tucker.entities, distmult.entities)
    ids = torch.tensor([[0, 4], [2, 1], [6, 4]])
    torch.testing.assert_close(tucker.score(*ids), distmult.score(*ids))
