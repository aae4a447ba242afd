"""What the fused engines have in common: which steps they take."""

from __future__ import annotations

import importlib.util

import torch

from staypositive.models import BilinearModel, BlockModel
from staypositive.objectives import Objective
from staypositive.training.optimisers import AdaGrad, RowOptimiser


def why_not(
    package: str,
    objectives: tuple[type[Objective], ...],
    dtypes: tuple[torch.dtype, ...],
    model: BilinearModel,
    objective: Objective,
    optimiser: RowOptimiser,
) -> str:
    """Return why an engine built on a package cannot take these steps; empty when it can."""
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed (pip install {package})"
    if not isinstance(model, BlockModel):
        return "it serves the block family (distmult, cp, simple, complex, analogy, quaternion) alone"
    if type(objective) not in objectives:
        return f"it has no step for the objective {objective.name}"
    if not isinstance(optimiser, AdaGrad):
        return "it has AdaGrad alone"
    if model.entities.dtype not in dtypes:
        return f"it keeps rows as {' or '.join(str(dtype).removeprefix('torch.') for dtype in dtypes)} alone"
    return ""
