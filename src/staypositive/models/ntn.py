"""The bilinear layer of the neural tensor network (Socher et al. 2013): φ = Σ_k u_k · hᵀ W_k t.

The layer is linear in its slices, so a relation's matrix Z_r = Σ_k u_k W_k can be formed first; from there on it is
RESCAL, and the paper's corollary on sums of all scores carries over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models.contract import ModelOptions
from staypositive.models.rescal import Rescal
from staypositive.options import option


@dataclass(frozen=True)
class NtnOptions(ModelOptions):
    slices: int | None = option(None, "slices of a relation's tensor; default 4", least=1)


class Ntn(Rescal):
    """A relation's weights are `slices` mixing numbers u, then `slices` matrices W; its row is Z = Σ u_k W_k."""

    options: ClassVar[type[ModelOptions]] = NtnOptions

    def __init__(
        self, n_entities: int, n_relations: int, dim: int, *, slices: int | None = None, **settings: Any
    ) -> None:
        slices = 4 if slices is None else slices
        if slices < 1:
            raise SettingError(f"slices must be at least 1, got {slices}")
        self.slices = slices  # first, since the parent asks for widths
        super().__init__(n_entities, n_relations, dim, **settings)

    def relation_width(self) -> int:
        """Mixing numbers and matrices."""
        return self.slices * (1 + self.dim**2)

    def max_score(self) -> float:
        """An entry of Z is a sum of `slices` numbers in [-1, 1]."""
        return self.slices * self.dim**2

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        """Return Z_r, flattened, from bounded u and W."""
        mixing, matrices = self.bounded(weights).split([self.slices, self.slices * self.dim**2], dim=-1)
        return torch.einsum("...k,...kd->...d", mixing, matrices.unflatten(-1, (self.slices, -1)))
