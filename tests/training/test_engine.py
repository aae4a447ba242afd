"""Steps: the paper's loss written separately, sparse against dense updates, masks for bad steps."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from conftest import tiny_model
from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.models.hashing import step_keys
from staypositive.objectives import Batch, NegativeSampling, Objective, OneVsAll, StayPositive
from staypositive.training import AdaGrad, Adam, SteppedEngine, build_optimiser
from stepping import stepped

FACTS = torch.tensor([(0, 0, 1), (2, 1, 2), (4, 0, 0), (0, 0, 1), (5, 1, 3)])


def engine_for(
    model: BilinearModel, objective: Objective, lr: float = 0.1, optimiser: str = "adagrad",
    kind: str = "autograd",
) -> SteppedEngine:  # fmt: skip
    tables = {name: table.data for name, table in model.named_parameters()}
    return stepped(kind, model, objective, build_optimiser(optimiser, tables, lr, 0.1), FACTS, 2, 0)


def plain_paper_loss(
    E: torch.Tensor, R: torch.Tensor, facts: list[list[int]], lam: float, psi: float, scope: str
) -> torch.Tensor:
    """Equation 2 for DistMult, by loops over triples alone: tanh, I/d, enumeration of all triples of the scope."""
    d = E.shape[1]

    def phi(h: int, r: int, t: int) -> torch.Tensor:
        return 5.0 / d * sum(torch.tanh(E[h, i]) * torch.tanh(R[r, i]) * torch.tanh(E[t, i]) for i in range(d))

    if scope == "all":
        entities, relations = list(range(len(E))), list(range(len(R)))
    else:
        entities = sorted({e for h, _, t in facts for e in (h, t)})
        relations = sorted({r for _, r, _ in facts})
    data = sum(torch.log1p(torch.exp(-(phi(h, r, t) + psi))) for h, r, t in facts)
    total = sum(phi(h, r, t) for h, r, t in itertools.product(entities, relations, entities))
    return data + lam * abs(total)


@pytest.mark.parametrize("scope", ["batch", "all"])
@pytest.mark.parametrize("weighting", ["paper", "authors"])
def test_stay_positive_takes_the_steps_of_a_plain_version(scope: str, weighting: str) -> None:
    model = tiny_model("distmult", prior_score=-0.7)
    E, R = model.entities.detach().clone().requires_grad_(), model.relations.detach().clone().requires_grad_()
    plain = torch.optim.Adagrad([E, R], lr=0.1, initial_accumulator_value=0.1)
    engine = engine_for(model, StayPositive(penalty_weight=0.2, scope=scope, weighting=weighting))
    lam = 0.2 if weighting == "paper" else 0.2 / 3  # five facts in batches of two: three batches
    for step in ([0, 1], [2, 3], [4], [1, 4]):
        facts = FACTS[step]
        plain.zero_grad()
        loss = plain_paper_loss(E, R, facts.tolist(), lam, -0.7, scope)
        loss.backward()
        plain.step()
        terms = engine.step(facts)
        torch.testing.assert_close(terms["facts"] + terms["penalty"], loss.detach())
        torch.testing.assert_close(model.entities.data, E.data)
        torch.testing.assert_close(model.relations.data, R.data)


@pytest.mark.parametrize("objective", [StayPositive(), NegativeSampling(negatives=2)], ids=lambda o: o.name)
def test_touched_rows_alone_change(model_name: str, objective: Objective) -> None:
    model = tiny_model(model_name)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    engine = engine_for(model, objective)
    engine.step(FACTS[:1])
    touched = objective.examples(FACTS[None, :1], 7, step_keys(engine.seed, 0, 1, FACTS.device))[0]
    entities = (model.entities.data != before["entities"]).any(1).nonzero()[:, 0].tolist()
    assert entities == sorted(set(touched[:, [0, 2]].flatten().tolist()))
    assert (model.relations.data != before["relations"]).any(1).nonzero()[:, 0].tolist() == [0]


@pytest.mark.parametrize(
    "objective",
    [StayPositive(0.3), StayPositive(0.3, power=2), NegativeSampling(negatives=2)],
    ids=lambda o: f"{o.name} {getattr(o, 'power', '')}",
)
def test_whole_tables_take_the_same_steps(model_name: str, objective: Objective) -> None:
    engines = [
        engine_for(tiny_model(model_name, dropout=0.4), objective, kind=kind)
        for kind in ("autograd", "captured-whole")
    ]
    for _ in range(3):
        expected, found = (SteppedEngine.run_epoch(engine)[0] for engine in engines)  # captured on a GPU only
        for term, value in expected.items():
            torch.testing.assert_close(found[term], value)
    for name, table in engines[0].model.named_parameters():
        torch.testing.assert_close(engines[1].model.get_parameter(name), table)


@pytest.mark.parametrize("optimiser", ["adagrad", "adam"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_shared_core_is_trained_in_every_step(optimiser: str, dtype: torch.dtype) -> None:
    model = tiny_model("tucker").to(dtype)
    before, loss = model.core.detach().clone(), StayPositive(penalty_weight=0.2)
    engine = engine_for(model, loss, 0.5, optimiser)
    first = engine.step(FACTS)
    assert (model.core.data != before).any(1).all()
    assert sum(engine.step(FACTS).values()) < sum(first.values())


@pytest.mark.parametrize("objective", [NegativeSampling(l2=0.1), OneVsAll(), StayPositive(scope="all")])
def test_dense_objectives_change_every_entity(objective: Objective) -> None:
    model = tiny_model("distmult", objective.defaults.bound)
    before = model.entities.detach().clone()
    engine_for(model, objective).step(FACTS[:1])
    assert (model.entities.data != before).any(1).all()


@pytest.mark.parametrize(("ours", "theirs"), [(AdaGrad, torch.optim.Adagrad), (Adam, torch.optim.Adam)])
def test_dense_updates_equal_torch(ours: type, theirs: type) -> None:
    draw = torch.Generator().manual_seed(0)
    weights = torch.randn(4, 3, dtype=torch.float64, generator=draw)
    twin = weights.clone().requires_grad_()
    extra = {"initial_accumulator_value": 0.1} if ours is AdaGrad else {}
    plain, optimiser = theirs([twin], lr=0.3, **extra), ours({"w": weights}, 0.3)
    for ids in (None, torch.arange(4), None):
        twin.grad = torch.randn(4, 3, dtype=torch.float64, generator=draw)
        plain.step()
        optimiser.begin_step(torch.tensor(0))
        optimiser.update("w", ids, twin.grad.clone())
        torch.testing.assert_close(weights, twin.data)


def test_adagrad_on_touched_rows_is_dense_adagrad() -> None:
    draw = torch.Generator().manual_seed(0)
    dense = torch.randn(5, 3, dtype=torch.float64, generator=draw)
    sparse = dense.clone()
    a, b = AdaGrad({"w": dense}, 0.3), AdaGrad({"w": sparse}, 0.3)
    for ids in ([0, 2], [2], [1, 4, 0]):
        gradient = torch.zeros(5, 3, dtype=torch.float64)
        gradient[ids] = torch.randn(len(ids), 3, dtype=torch.float64, generator=draw)
        a.update("w", None, gradient)
        b.update("w", torch.tensor(ids), gradient[ids])
        torch.testing.assert_close(sparse, dense)


def test_lazy_adam_leaves_other_rows_alone() -> None:
    weights = torch.ones(3, 2)
    optimiser = Adam({"w": weights}, 0.1)
    optimiser.begin_step(torch.tensor(0))
    optimiser.update("w", torch.tensor([1]), torch.ones(1, 2))
    assert weights[[0, 2]].tolist() == [[1, 1], [1, 1]]
    assert weights[1, 0] == pytest.approx(0.9)


class _BadSecondStep(StayPositive):
    """NaN in the second step only."""

    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, torch.Tensor]:
        terms = super().terms(model, batch)
        object.__setattr__(self, "calls", getattr(self, "calls", 0) + 1)
        return {**terms, "bad": terms["facts"] * (math.nan if self.__dict__["calls"] == 2 else 0.0)}


def test_a_bad_step_changes_nothing_and_is_seen() -> None:
    model = tiny_model("distmult")
    engine = engine_for(model, _BadSecondStep())
    engine.step(FACTS[:2])
    kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    terms = engine.step(FACTS[2:4])
    assert torch.isnan(terms["bad"])
    assert all(torch.equal(weight, kept[name]) for name, weight in model.state_dict().items())
    assert torch.isfinite(engine.step(FACTS[4:])["facts"])


def test_an_epoch_sees_each_fact_once_and_averages() -> None:
    seen: list[torch.Tensor] = []

    class Spy(StayPositive):
        def examples(self, facts, n_entities, keys):
            seen.append(facts[0])
            return super().examples(facts, n_entities, keys)

    model = tiny_model("distmult")
    means = engine_for(model, Spy(penalty_weight=0), lr=1e-12).run_epoch()[0]
    assert [len(part) for part in seen] == [2, 2, 1]
    assert sorted(map(tuple, torch.cat(seen).tolist())) == sorted(map(tuple, FACTS.tolist()))
    expected = torch.nn.functional.softplus(-model.logit(*FACTS.T)).mean().detach()
    torch.testing.assert_close(means["facts"], expected)


def test_bad_settings() -> None:
    model = tiny_model("distmult")
    with pytest.raises(SettingError, match="batch size"):
        stepped("autograd", model, StayPositive(), AdaGrad({}, 0.1), FACTS, 0, 0)
    with pytest.raises(SettingError, match="learning rate"):
        AdaGrad({}, 0)
    with pytest.raises(SettingError, match="adagrad, adagrad-rowwise, adam"):
        build_optimiser("sgd", {}, 0.1, 0.1)
