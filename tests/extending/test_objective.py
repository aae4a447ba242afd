"""An objective from outside the package: a loss of the facts' rows and of the Gram matrix of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import staypositive as sp
from launching import world_of_one
from staypositive.objectives import Defaults, Statistic
from staypositive.options import option
from staypositive.run import make_settings, new_model, training_task
from staypositive.sharded import shard_model
from staypositive.training import build_engine

# --- what an extension writes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TailSquares(sp.Objective):
    """Mean over facts of (1 − φ)² + w0 · Σ φ² over all tails."""

    name: ClassVar[str] = "tail-squares"
    defaults: ClassVar[Defaults] = Defaults(bound="identity", init_scale=0.5, accumulator=0.1, monitor="mrr")
    averages: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = False
    statistic = Statistic.GRAM
    all_weight: float = option(0.01, "weight w0 of all tails", least=0)

    def terms(self, model: sp.BilinearModel, batch: Any) -> dict[str, torch.Tensor]:
        heads, relations, tails = batch.rows()
        query = model.tail_query(heads, relations)
        facts = (1 - (query * tails).sum(-1)).square()
        return {"facts": facts.mean(), "all": self.all_weight * batch.all_entities().sum_squares(query).mean()}


# --- what it gets ------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"model": "complex", "dim": 6, "batch_size": 64, "learning_rate": 0.2, "device": "cpu"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sp.OBJECTIVES, TailSquares.name, TailSquares)


def test_it_trains_by_the_steps_of_its_statistic(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(planted, objective="tail-squares", all_weight=0.02, epochs=30, **OPTIONS)
    assert run.provenance["engine"] == "autograd-gram"
    assert run.metric("auc") > 0.9
    assert sp.load_run(run.save(tmp_path / "run")).settings == run.settings


def test_every_store_takes_its_steps(planted: sp.KnowledgeGraph) -> None:
    settings = make_settings(objective="tail-squares", **OPTIONS)
    found = []
    with world_of_one("cpu") as world:
        for kind in ("autograd", "autograd-gram", "sharded"):
            sharded = world if kind == "sharded" else None
            model = shard_model(planted, settings, world) if sharded else new_model(planted, settings)
            engine = build_engine(kind, training_task(planted, settings, model, sharded))
            engine.run_epoch()
            found.append(model.entities.detach())
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-4, atol=1e-5)
