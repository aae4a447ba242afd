"""Engines by the name of their kind, for tests that hold one kind of steps to another."""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.objectives import Objective
from staypositive.training import Engine, FactStream, RowOptimiser, SteppedEngine, TrainingTask, build_engine


def engine_of(
    kind: str,
    model: BilinearModel,
    objective: Objective,
    optimiser: RowOptimiser,
    facts: Tensor | FactStream,
    batch_size: int,
    seed: int,
    weights: Tensor | None = None,
) -> Engine:
    """Build an engine: `kind` is a name of `KINDS`, whether `auto` would take it or not, or of `ENGINES`."""
    return build_engine(kind, TrainingTask(model, objective, optimiser, facts, batch_size, seed, weights))


def stepped(kind: str, *arguments: object, **more: object) -> SteppedEngine:
    engine = engine_of(kind, *arguments, **more)  # type: ignore[arg-type]
    assert isinstance(engine, SteppedEngine)
    return engine


def epoch(engine: Engine) -> dict[str, torch.Tensor]:
    """Go once through the facts; return the terms of a single run."""
    (terms,) = engine.run_epoch()
    return terms
