"""TransE (Bordes et al. 2013) with squared distance and an offset per relation: φ = b − ‖h + r − t‖².

Written out, φ = b − ‖h‖² − ‖r‖² − ‖t‖² − 2 h·r + 2 h·t + 2 r·t: linear in each of the *lifted* rows (h, ‖h‖², 1),
(r, b − ‖r‖², 1) and (t, ‖t‖², 1). With those for rows it is a member of the contract like any other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel


class TransE(BilinearModel):
    """An entity is a point, a relation a translation and its offset; a row is lifted, so it is 2 numbers wider.

    With the tanh bound the offset lies between 0 and the largest squared distance, so that scores fill (−I, I).
    """

    rows_are_free = False

    def relation_width(self) -> int:
        return self.dim + 1

    def max_score(self) -> float:
        return 9 * self.dim  # each coordinate of h + r − t lies in [-3, 3]

    def form_entity_rows(self, weights: Tensor) -> Tensor:
        points = self.bounded(weights)
        return _lifted(points, points.square().sum(-1, keepdim=True))

    def form_relation_rows(self, weights: Tensor) -> Tensor:
        moves, offsets = self.bounded(weights).split([self.dim, 1], dim=-1)
        if self.bound == "tanh":
            offsets = self.max_score() * (1 + offsets) / 2
        return _lifted(moves, offsets - moves.square().sum(-1, keepdim=True))

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return (2(h + r), −1, b − ‖r‖² − ‖h‖² − 2 h·r).

        Each 1 of a row is kept as a factor: in a sum of rows it is their number.
        """
        (h, h_size, h_one), (r, r_rest, r_one) = self._parts(head_rows), self._parts(relation_rows)
        ones = r_rest * h_one - h_size * r_one - 2 * (h * r).sum(-1, keepdim=True)
        return self.scale * torch.cat([2 * (h * r_one + r * h_one), -h_one * r_one, ones], dim=-1)

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        r, rest, one = self._parts(relation_rows)
        return self.tail_query(tail_rows, torch.cat([-r, rest, one], dim=-1))  # h is where t came from

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return (2(t − h), 1, −‖t − h‖²)."""
        (h, h_size, h_one), (t, t_size, t_one) = self._parts(head_rows), self._parts(tail_rows)
        ones = 2 * (h * t).sum(-1, keepdim=True) - h_size * t_one - t_size * h_one
        return self.scale * torch.cat([2 * (t * h_one - h * t_one), h_one * t_one, ones], dim=-1)

    def summands(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        (h, _, _), (r, r_rest, _), (t, _, _) = map(self._parts, (head_rows, relation_rows, tail_rows))
        offsets = r_rest + r.square().sum(-1, keepdim=True)
        return self.scale * (offsets / self.dim - (h + r - t).square())

    def largest_score(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return what h + r + t, all of one sign, would give, and the offset, b being (b − ‖r‖²) + ‖r‖²."""
        (h, _, _), (r, r_rest, _), (t, _, _) = map(self._parts, (head_rows, relation_rows, tail_rows))
        return self.scale * ((h + r + t).square() + r.square()).sum(-1) + self.scale * r_rest.squeeze(-1)

    def moduli(self, rows: Tensor) -> Tensor:
        return rows[..., : self.dim].abs()  # without what lifts a point or a translation

    def _parts(self, rows: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = rows.split([self.dim, 1, 1], dim=-1)
        return parts


def _lifted(vectors: Tensor, numbers: Tensor) -> Tensor:
    return torch.cat([vectors, numbers, torch.ones_like(numbers)], dim=-1)
