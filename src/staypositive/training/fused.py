"""What the fused engines have in common: which steps they take."""

from __future__ import annotations

import importlib.util
from typing import ClassVar, Protocol

import torch

from staypositive.models import BilinearModel, BlockModel
from staypositive.objectives import Objective
from staypositive.training.optimisers import AdaGrad, RowOptimiser


class FusedEngine(Protocol):
    """What a fused engine says of itself: its library, and the objectives, number formats and tables it serves."""

    package: ClassVar[str]
    serves: ClassVar[tuple[type[Objective], ...]]
    dtypes: ClassVar[tuple[torch.dtype, ...]]
    most_blocks: ClassVar[int | None]
    """Blocks per row that its kernels can address; None for any number."""


def why_not(engine: type[FusedEngine], model: BilinearModel, objective: Objective, optimiser: RowOptimiser) -> str:
    """Return why an engine cannot take these steps; empty when it can."""
    if importlib.util.find_spec(engine.package) is None:
        return f"{engine.package} is not installed (pip install {engine.package})"
    if not isinstance(model, BlockModel):
        return "it serves the block family (distmult, cp, simple, complex, analogy, quaternion) alone"
    if engine.most_blocks is not None and model.table.most_blocks > engine.most_blocks:
        return f"its kernels address {engine.most_blocks} blocks per row; this model has {model.table.most_blocks}"
    if type(objective) not in engine.serves:
        return f"it has no step for the objective {objective.name}"
    if not isinstance(optimiser, AdaGrad):
        return "it has AdaGrad alone"
    if model.entities.dtype not in engine.dtypes:
        return f"it keeps rows as {' or '.join(str(dtype).removeprefix('torch.') for dtype in engine.dtypes)} alone"
    return ""
