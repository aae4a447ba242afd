"""RESCAL (Nickel et al. 2011): a full matrix per relation, φ = hᵀ Z_r t."""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel


class Rescal(BilinearModel):
    """A relation row is its dim × dim matrix, flattened; the sum of all scores costs O(|E|d + |R|d²)."""

    def entity_width(self) -> int:
        return self.dim

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
