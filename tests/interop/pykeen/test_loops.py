"""Training without negatives inside PyKEEN: the loss is ours, the model, optimiser and pipeline are PyKEEN's."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pykeen")

import torch
from pykeen.pipeline import pipeline
from pykeen.training import training_loop_resolver
from torch.nn.functional import softplus

from pykeen_models import MODELS, TRAIN, all_triples, small_model, train
from staypositive.errors import SettingError
from staypositive.interop.pykeen import SecondMomentTrainingLoop, StayPositiveTrainingLoop


def loss_of(loop: Any, factory: Any, size: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of one batch, as the loop has it, and the batch's facts."""
    loader = loop._create_training_data_loader(factory, sampler=None, batch_size=size, drop_last=False)
    batch = next(iter(loader))
    loop.model.train()
    return loop._process_batch(batch, 0, len(batch["facts"])), batch["facts"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scope", ["batch", "all"])
def test_stay_positive_loss_is_that_of_every_score(name: str, scope: str, nations: Any) -> None:
    model = small_model(name, nations.training, plain=True)
    loop = StayPositiveTrainingLoop(model, nations.training, penalty_weight=0.3, scope=scope, prior_score=-0.7)
    loss, facts = loss_of(loop, nations.training)
    triples = all_triples(model)
    if scope == "batch":
        entities, relations = facts[:, [0, 2]].unique(), facts[:, 1].unique()
        triples = triples[torch.isin(triples[:, [0, 2]], entities).all(1) & torch.isin(triples[:, 1], relations)]
    penalty = 0.3 / loop.batches * model.score_hrt(triples).sum().abs()
    expected = softplus(-(model.score_hrt(facts) - 0.7)).sum() + penalty
    torch.testing.assert_close(loss.squeeze(), expected)
    assert_same_gradients(model, loss, expected)


@pytest.mark.parametrize("name", MODELS)
def test_second_moment_loss_is_that_of_every_score(name: str, nations: Any) -> None:
    model = small_model(name, nations.training, plain=True)
    loop = SecondMomentTrainingLoop(model, nations.training, n3=0.0, unobserved_weight=0.2)
    assert loop.objective.is_reciprocal == nations.create_inverse_triples
    loss, facts = loss_of(loop, nations.training)
    own = model.score_hrt(facts).squeeze(1)

    def direction(scores: torch.Tensor, w0: float) -> torch.Tensor:
        return ((1 - own) ** 2 - w0 * own**2 + w0 * scores.square().sum(1)).mean()

    expected = direction(model.score_t(facts[:, :2]), 0.2) + 0.3 * direction(model.score_r(facts[:, [0, 2]]), 0.1)
    if not nations.create_inverse_triples:
        expected = expected + direction(model.score_h(facts[:, 1:]), 0.2)
    torch.testing.assert_close(loss.squeeze(), expected)
    assert_same_gradients(model, loss, expected)


def assert_same_gradients(model: Any, loss: torch.Tensor, expected: torch.Tensor) -> None:
    weights = list(model.get_grad_params())
    ours = torch.autograd.grad(loss.squeeze(), weights, retain_graph=True, allow_unused=True)
    theirs = torch.autograd.grad(expected, weights, allow_unused=True)
    for one, other, weight in zip(ours, theirs, weights, strict=True):
        zero = torch.zeros_like(weight)
        torch.testing.assert_close(zero if one is None else one, zero if other is None else other)


def test_models_own_regulariser_takes_part(plain_nations: Any) -> None:
    losses = []
    for weight in (0.0, 5.0):
        model = small_model("DistMult", plain_nations.training, regularizer_kwargs={"weight": weight, "p": 2.0})
        torch.manual_seed(0)
        losses.append(
            loss_of(StayPositiveTrainingLoop(model, plain_nations.training), plain_nations.training)[0].item()
        )
    rows = small_model("DistMult", plain_nations.training).relation_representations[0]()
    assert losses[1] - losses[0] == pytest.approx(5 * rows.norm(dim=1).mean().item(), rel=1e-3)


@pytest.mark.parametrize("name", ["stay-positive", "second-moment"])
def test_pipeline_takes_the_loop_by_name_and_learns(name: str, plain_nations: Any) -> None:
    result = pipeline(
        dataset=plain_nations, model="complex", training_loop=name, random_seed=0, optimizer_kwargs={"lr": 0.05},
        training_kwargs={"num_epochs": 4, **TRAIN}, evaluation_kwargs={"use_tqdm": False, "batch_size": 64},
    )  # fmt: skip
    assert type(result.training_loop) is training_loop_resolver.lookup(name)
    assert result.losses[-1] < result.losses[0]


@pytest.mark.filterwarnings("ignore:The epoch parameter in")  # PyKEEN steps schedulers so
def test_stopper_and_scheduler_go_with_it(plain_nations: Any) -> None:
    result = pipeline(
        dataset=plain_nations, model="distmult", training_loop="second-moment", random_seed=0,
        lr_scheduler="ExponentialLR", lr_scheduler_kwargs={"gamma": 0.5},
        training_kwargs={"num_epochs": 4, **TRAIN},
        stopper="early", stopper_kwargs={"frequency": 1, "patience": 1, "relative_delta": 0.5},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 64},
    )  # fmt: skip
    assert result.stopper.stopped
    assert len(result.losses) < 4


def test_no_negative_sampler_is_ever_made(plain_nations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pykeen.sampling import NegativeSampler

    monkeypatch.setattr(NegativeSampler, "__init__", lambda *_, **__: pytest.fail("a negative sampler was made"))
    train(
        StayPositiveTrainingLoop(small_model("CP", plain_nations.training), plain_nations.training),
        plain_nations.training,
    )


def test_an_epoch_sees_each_fact_once_and_backwards_too(nations: Any) -> None:
    model = small_model("DistMult", nations.training)
    loop = SecondMomentTrainingLoop(model, nations.training, weighting="query", relation_power=0.5)
    loader = loop._create_training_data_loader(nations.training, sampler=None, batch_size=100, drop_last=False)
    batches = list(loader)
    facts = torch.cat([batch["facts"] for batch in batches])
    assert len(loader) == len(batches) == loop.batches
    assert len(facts) == nations.training.num_triples * (1 + nations.create_inverse_triples)
    assert len(facts.unique(dim=0)) == len(facts)
    assert set(batches[0]) == {"facts", "weight", "tails", "heads", "relations"}
    short = loop._create_training_data_loader(nations.training, sampler=None, batch_size=1000, drop_last=True)
    assert [len(batch["facts"]) for batch in short] == [1000] * len(short)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reciprocal": True}, "leave reciprocal out"),
        ({"loss_weighter": "relation"}, "leave it out"),
        ({"prior": 2.0}, "between 0 and 1"),
        ({"unobserved_weight": -1.0}, "must be at least 0"),
    ],
)
def test_what_cannot_work_is_said_at_once(options: dict[str, Any], said: str, plain_nations: Any) -> None:
    with pytest.raises(SettingError, match=said):
        SecondMomentTrainingLoop(small_model("DistMult", plain_nations.training), plain_nations.training, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_smoothing": 0.1}, "no labels to smooth"),
        ({"sub_batch_size": 10, "batch_size": 100}, "not sub-batches"),
        ({"sampler": "schlichtkrull"}, "all facts in random order"),
    ],
)
def test_what_has_no_meaning_here_is_refused(options: dict[str, Any], said: str, plain_nations: Any) -> None:
    loop = StayPositiveTrainingLoop(
        small_model("DistMult", plain_nations.training), plain_nations.training, automatic_memory_optimization=False
    )
    with pytest.raises(SettingError, match=said):
        train(loop, plain_nations.training, **options)
