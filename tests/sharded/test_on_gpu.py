"""A world of one process on a real GPU, by NCCL (`make test-gpu`): the reference steps, ranks, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import staypositive as sp
from launching import world_of_one
from staypositive.evaluation import rank_facts
from staypositive.models import Scorer
from staypositive.run import make_settings, new_model, training_task
from staypositive.sharded import World, fit_sharded, shard_model
from staypositive.training import build_engine
from stepping import epoch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OBJECTIVES: dict[str, dict[str, Any]] = {
    "batch": {"dropout": 0.3},
    "all": {"scope": "all", "penalty_weight": 1e-4},
    "moments": {"objective": "second-moment", "init_scale": 0.5, "dropout": 0.2},
    "drawn": {"objective": "negative-sampling", "negatives": 3, "dropout": 0.3},
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_of_one("cuda") as world:
        assert world.backend == "nccl"
        yield world


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("model_name", ["distmult", "simple", "complex"])
def test_steps_are_the_reference_engine_s(
    world: World, planted: sp.KnowledgeGraph, name: str, model_name: str
) -> None:
    settings = make_settings(model=model_name, dim=8, batch_size=256, seed=2, **OBJECTIVES[name])
    own = shard_model(planted, settings, world)
    engine = build_engine("auto", training_task(planted, settings, own, world))
    model = new_model(planted, settings).to(world.device)
    reference = build_engine("autograd", training_task(planted, settings, model))
    for _ in range(2):
        ours, theirs = epoch(engine), epoch(reference)
        for term, value in theirs.items():
            torch.testing.assert_close(ours[term], value, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(own.entities.data, model.entities.data, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(own.relations.data, model.relations.data, rtol=1e-2, atol=1e-3)


def test_a_training_goes_on_and_is_ranked(world: World, planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    common: dict[str, Any] = {"model": "complex", "dim": 8, "batch_size": 256, "validate_every": 2}
    through = fit_sharded(planted, make_settings(**common, epochs=6), world)
    fit_sharded(planted, make_settings(**common, epochs=4), world, checkpoints=tmp_path)
    resumed = fit_sharded(planted, make_settings(**common, epochs=6), world, checkpoints=tmp_path)
    assert len(resumed.result.history) == 6
    for ours, theirs in zip(resumed.result.history, through.result.history, strict=True):
        assert ours.terms == pytest.approx(theirs.terms, rel=1e-3)
    whole = resumed.whole()
    assert whole is not None
    assert whole.model.entities.is_cuda
    expected = rank_facts(Scorer(whole.model).asked(), planted.test.facts, planted.facts())
    found = resumed.rank("test")
    assert np.mean(found.better == expected.better) > 0.99  # to rounding
    assert np.array_equal(found.candidates, expected.candidates)
    whole.save(tmp_path / "run")
    assert len(sp.load_run(tmp_path / "run").predict(head="p0", relation="ally")) == 10
