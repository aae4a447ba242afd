"""Models with a matrix per relation: RESCAL, the bilinear layer of NTN, and TuckER."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from staypositive.errors import SettingError
from staypositive.models.contract import BilinearModel, Draw, ModelOptions, draw_uniform
from staypositive.options import option


class Rescal(BilinearModel):
    """RESCAL (Nickel et al. 2011): φ = hᵀ Z_r t. A relation row is its dim × dim matrix, flattened."""

    def relation_width(self) -> int:
        return self.dim**2

    def max_score(self) -> float:
        return self.dim**2  # every entry of the matrix meets one pair of coordinates

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self.scale * (head_rows.unsqueeze(-2) @ self._matrix(relation_rows)).squeeze(-2)

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self.scale * (self._matrix(relation_rows) @ tail_rows.unsqueeze(-1)).squeeze(-1)

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        return self.scale * torch.flatten(head_rows.unsqueeze(-1) * tail_rows.unsqueeze(-2), -2)

    def _matrix(self, relation_rows: Tensor) -> Tensor:
        result: Tensor = relation_rows.unflatten(-1, (self.dim, self.dim))
        return result


@dataclass(frozen=True)
class NtnOptions(ModelOptions):
    slices: int | None = option(None, "slices of a relation's tensor; default 4", least=1)


class Ntn(Rescal):
    """The bilinear layer of the neural tensor network (Socher et al. 2013): φ = Σ_k u_k · hᵀ W_k t.

    A relation's weights are `slices` mixing numbers u, then `slices` matrices W. The layer is linear in its slices,
    so the matrix Z_r = Σ_k u_k W_k can be formed first; from there on it is RESCAL.
    """

    options: ClassVar[type[ModelOptions]] = NtnOptions

    def __init__(
        self, n_entities: int, n_relations: int, dim: int, *, slices: int | None = None, **settings: Any
    ) -> None:
        self.slices = 4 if slices is None else slices  # first, since the parent asks for widths
        if self.slices < 1:
            raise SettingError(f"slices must be at least 1, got {slices}")
        super().__init__(n_entities, n_relations, dim, **settings)

    def relation_width(self) -> int:
        return self.slices * (1 + self.dim**2)

    def max_score(self) -> float:
        return self.slices * self.dim**2  # an entry of Z is a sum of `slices` numbers in [-1, 1]

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        mixing, matrices = self.bounded(weights).split([self.slices, self.slices * self.dim**2], dim=-1)
        return torch.einsum("...k,...kd->...d", mixing, matrices.unflatten(-1, (self.slices, -1)))


@dataclass(frozen=True)
class TuckerOptions(ModelOptions):
    slices: int | None = option(None, "slices of the core that all relations share; default dim", least=1)


class Tucker(Ntn):
    """TuckER (Balažević et al. 2019): φ = W ×₁ h ×₂ r ×₃ t, with one core tensor W that all relations share.

    As Σ_k r_k · hᵀ W_k t it is NTN's layer with common slices W_k: a relation's weights are its mixing numbers r, and
    the core is a third table, with a row per slice.
    """

    options: ClassVar[type[ModelOptions]] = TuckerOptions

    def __init__(
        self, n_entities: int, n_relations: int, dim: int, *, slices: int | None = None, **settings: Any
    ) -> None:
        super().__init__(n_entities, n_relations, dim, slices=dim if slices is None else slices, **settings)
        self.core = nn.Parameter(torch.zeros(self.slices, dim**2))

    def relation_width(self) -> int:
        return self.slices

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        return self.bounded(weights) @ self.bounded(self.core)

    def initialise(
        self, generator: torch.Generator, init_scale: float | None = None, draw: Draw | None = None
    ) -> None:
        """Draw both tables as usual and the core from ±1, as the authors do, lest four small numbers multiply."""
        super().initialise(generator, init_scale, draw)
        draw_uniform(self.core, 1.0, generator)
