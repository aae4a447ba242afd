"""Penalties that objectives share."""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.objectives.objective import Batch


def n3_penalty(weight: float, model: BilinearModel, *rows: Tensor) -> Tensor:
    """Return weight · mean over the facts of Σ |number|³ over their rows (Lacroix et al. 2018)."""
    total = torch.stack([model.moduli(part).pow(3).sum() for part in rows]).sum()
    return total * (weight / len(rows[0]))


def l2_penalty(weight: float, batch: Batch) -> Tensor:
    """Return weight/2 · (‖entities‖² + ‖relations‖²), divided so that it counts once an epoch."""
    total = batch.entity_weights.square().sum() + batch.relation_weights.square().sum()
    return total * (weight / 2 / batch.batches)
