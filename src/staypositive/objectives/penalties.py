"""Penalties that objectives share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.objectives.objective import Batch


def n3_penalty(
    weight: float, model: BilinearModel, *rows: Tensor, weights: Sequence[Tensor | None] = (None, None, None)
) -> Tensor:
    """Return weight · mean over the facts of Σ |number|³ over their rows (Lacroix et al. 2018).

    `weights` weigh the facts, for each of the kinds of rows; None weighs all alike.
    """
    cubes = [model.moduli(part).pow(3) for part in rows]
    sums = [
        cube.sum() if own is None else (cube.sum(-1) * own).sum() for cube, own in zip(cubes, weights, strict=True)
    ]
    return torch.stack(sums).sum() * (weight / len(rows[0]))


def l2_penalty(weight: float, batch: Batch) -> Tensor:
    """Return weight/2 · (‖entities‖² + ‖relations‖²), divided so that it counts once per epoch."""
    total = batch.entity_weights.square().sum() + batch.relation_weights.square().sum()
    return total * (weight / 2 / batch.batches)
