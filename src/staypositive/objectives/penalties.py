"""Penalties that objectives share."""

from __future__ import annotations

from torch import Tensor

from staypositive.objectives.objective import Batch


def l2_penalty(weight: float, batch: Batch) -> Tensor:
    """Return weight/2 · (‖entities‖² + ‖relations‖²), divided so that it counts once an epoch."""
    total = batch.entity_weights.square().sum() + batch.relation_weights.square().sum()
    return total * (weight / 2 / batch.batches)
