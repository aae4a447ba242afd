"""TuckER (Balažević et al. 2019): φ = W ×₁ h ×₂ r ×₃ t, with one core tensor W that all relations share.

As Σ_k r_k · hᵀ W_k t it is NTN's layer, the slices W_k being everybody's: a relation's matrix is Z_r = Σ_k r_k W_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from staypositive.models.contract import Draw, ModelOptions, draw_uniform
from staypositive.models.ntn import Ntn
from staypositive.options import option


@dataclass(frozen=True)
class TuckerOptions(ModelOptions):
    slices: int | None = option(None, "slices of the core that all relations share; default dim", least=1)


class Tucker(Ntn):
    """A relation's weights are `slices` mixing numbers, by default dim; the core is a third table, of all slices."""

    options: ClassVar[type[ModelOptions]] = TuckerOptions
    core: nn.Parameter

    def __init__(
        self, n_entities: int, n_relations: int, dim: int, *, slices: int | None = None, **settings: Any
    ) -> None:
        slices = dim if slices is None else slices
        super().__init__(n_entities, n_relations, dim, slices=slices, **settings)
        self.core = nn.Parameter(torch.zeros(slices, dim**2))

    def relation_width(self) -> int:
        """Mixing numbers alone."""
        return self.slices

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        """Return Z_r, flattened, from bounded r and W."""
        return self.bounded(weights) @ self.bounded(self.core)

    def initialise(
        self, generator: torch.Generator, init_scale: float | None = None, draw: Draw | None = None
    ) -> None:
        """Draw both tables as usual and the core from ±1, as the authors do, lest four small numbers multiply."""
        super().initialise(generator, init_scale, draw)
        draw_uniform(self.core, 1.0, generator)
