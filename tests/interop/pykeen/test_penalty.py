"""The penalty on the sum of all scores, beside PyKEEN's own losses."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pykeen")

import torch
from pykeen.pipeline import pipeline
from pykeen.regularizers import regularizer_resolver

from pykeen_models import MODELS, TRAIN, all_triples, small_model
from staypositive.errors import SettingError
from staypositive.interop.pykeen import StayPositiveRegularizer

EVALUATION = {"use_tqdm": False, "batch_size": 64}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("power", [1, 2])
def test_penalty_is_that_of_every_score(name: str, power: int, plain_nations: Any) -> None:
    model = small_model(name, plain_nations.training, plain=True)
    StayPositiveRegularizer(weight=0.25, power=power).double().bind(model)
    expected = 0.25 * model.score_hrt(all_triples(model)).sum().abs() ** power
    torch.testing.assert_close(model.collect_regularization_term().squeeze(), expected)


def test_other_regularisers_are_counted_once(plain_nations: Any) -> None:
    model = small_model("DistMult", plain_nations.training)
    StayPositiveRegularizer(weight=0.0).double().bind(model)
    model.train()
    terms = []
    for _ in range(2):
        model.score_hrt(plain_nations.training.mapped_triples[:10])
        terms.append(model.collect_regularization_term().item())
    assert terms[0] == pytest.approx(terms[1])
    assert terms[0] > 0


def test_bound_twice_it_is_collected_once(plain_nations: Any) -> None:
    model = small_model("CP", plain_nations.training)
    StayPositiveRegularizer().bind(model).bind(model)
    assert sum(isinstance(module, StayPositiveRegularizer) for module in model.weight_regularizers) == 1


def test_callback_adds_it_to_any_training(plain_nations: Any) -> None:
    """With a heavy penalty the mean of all scores ends nearer to 0 than without."""
    sums = []
    for callbacks in ({}, {"callbacks": "stay-positive", "callbacks_kwargs": {"weight": 10.0}}):
        result = pipeline(
            dataset=plain_nations, model="rescal", random_seed=0, optimizer_kwargs={"lr": 0.01},
            training_kwargs={"num_epochs": 5, **TRAIN, **callbacks}, evaluation_kwargs=EVALUATION,
        )  # fmt: skip
        with torch.no_grad():
            sums.append(abs(float(result.model.score_hrt(all_triples(result.model)).mean())))
    assert sums[1] < sums[0] / 2


def test_by_name_it_is_bound_by_the_callback(plain_nations: Any) -> None:
    assert regularizer_resolver.lookup("stay-positive") is StayPositiveRegularizer
    common = {"dataset": plain_nations, "model": "complex", "random_seed": 0, "regularizer": "stay-positive",
              "regularizer_kwargs": {"weight": 0.5}, "evaluation_kwargs": EVALUATION}  # fmt: skip
    with pytest.raises(SettingError, match="callbacks='stay-positive'"):
        pipeline(training_kwargs={"num_epochs": 1, **TRAIN}, **common)
    result = pipeline(training_kwargs={"num_epochs": 1, **TRAIN, "callbacks": "stay-positive"}, **common)
    own = [module for module in result.model.modules() if isinstance(module, StayPositiveRegularizer)]
    assert [float(module.weight) for module in own] == [0.5]
    assert own[0].view is not None
