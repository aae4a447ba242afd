"""The block family: a model is a table of terms, and everything follows from the table.

A row is `blocks × dim` numbers. `score = scale · Σ_terms c · ⟨h[head block], r[relation block], t[tail block]⟩`.
To add a model, add a line to `TABLES`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel
from staypositive.models.hashing import HAS_TRITON

GPU_BLOCKS = 4  # per row, that the GPU kernels can address: they pack the number of a block into two bits


class Term(NamedTuple):
    head: int
    relation: int
    tail: int
    coefficient: float


@dataclass(frozen=True)
class Table:
    """How many blocks an entity and a relation have, and the terms as `head relation tail sign`, e.g. `"001+"`."""

    entity_blocks: int
    relation_blocks: int
    notation: str
    weight: float = 1.0
    numbers: str = ""  # blocks that are the parts of one number, `"0 12"`: real and complex; by default all real

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        parts = [(*map(int, term[:3]), float(f"{term[3]}1") * self.weight) for term in self.notation.split()]
        return tuple(map(Term._make, parts))

    @property
    def most_blocks(self) -> int:
        return max(self.entity_blocks, self.relation_blocks)

    @cached_property
    def max_score(self) -> float:
        """m: the largest |Σ c·h·r·t| at one coordinate over entries in [-1, 1], reached at a corner."""

        def corners(blocks: int) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.array(list(itertools.product((-1.0, 1.0), repeat=blocks)))

        heads, relations = corners(self.entity_blocks), corners(self.relation_blocks)
        queries = np.zeros((len(heads), len(relations), self.entity_blocks))
        for head, relation, tail, coefficient in self.terms:
            queries[:, :, tail] += coefficient * np.outer(heads[:, head], relations[:, relation])
        return float(np.abs(queries).sum(-1).max())  # the best tail copies the query's signs


TABLES: dict[str, Table] = {
    "distmult": Table(1, 1, "000+"),
    "cp": Table(2, 1, "001+"),
    "simple": Table(2, 2, "001+ 110+", weight=0.5),
    "complex": Table(2, 2, "000+ 101+ 011+ 110-", numbers="01"),
    "analogy": Table(3, 3, "000+ 111+ 212+ 122+ 221-", numbers="0 12"),
    "quaternion": Table(
        4, 4, "000+ 110- 220- 330- 011+ 101+ 231+ 321- 022+ 132- 202+ 312+ 033+ 123+ 213- 303+", numbers="0123"
    ),
}
"""DistMult (Yang et al. 2015), CP (Hitchcock 1927), SimplE (Kazemi and Poole 2018), ComplEx (Trouillon et al. 2016),
ANALOGY (Liu et al. 2017: DistMult's terms beside ComplEx's) and the Hamilton product h ⊗ r against t (Zhang et al.
2019, without QuatE's normalisation, which would not be linear)."""


class BlockModel(BilinearModel):
    def __init__(self, n_entities: int, n_relations: int, dim: int, *, table: Table, **settings: Any) -> None:
        self.table = table  # first, since the parent asks for widths
        super().__init__(n_entities, n_relations, dim, **settings)

    def entity_width(self) -> int:
        return self.table.entity_blocks * self.dim

    def relation_width(self) -> int:
        return self.table.relation_blocks * self.dim

    def max_score(self) -> float:
        return self.dim * self.table.max_score  # coordinates are independent

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self._query(self.table.entity_blocks, (0, 1, 2), head_rows, relation_rows)

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        return self._query(self.table.entity_blocks, (2, 1, 0), tail_rows, relation_rows)

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        return self._query(self.table.relation_blocks, (0, 2, 1), head_rows, tail_rows)

    def summands(self, head_rows: Tensor, relation_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Keep the terms apart, so that dropout draws one mask per term, as the authors' SimplE does."""
        heads, relations, tails = (self._blocks(rows) for rows in (head_rows, relation_rows, tail_rows))
        return torch.cat(
            [
                self.scale * c * heads[..., h, :] * relations[..., r, :] * tails[..., t, :]
                for h, r, t, c in self.table.terms
            ],
            dim=-1,
        )

    def sum_of_squares(self, head_gram: Tensor, relation_rows: Tensor, tail_gram: Tensor) -> Tensor:
        """Return Σ φ² as products of three Gram matrices' blocks, the relations' among them: O(terms² · dim²).

        Squaring Σ_m c_m ⟨h, r, t⟩_m and summing over all triples leaves, for each two terms m and n,
        c_m c_n · Σ_ij H[h_m i, h_n j] · R[r_m i, r_n j] · T[t_m i, t_n j].
        """
        heads, relations, tails = (
            gram.unflatten(0, (-1, self.dim)).unflatten(2, (-1, self.dim)).transpose(1, 2)  # block, block, dim, dim
            for gram in (head_gram, relation_rows.T @ relation_rows, tail_gram)
        )
        terms, parts = self.table.terms, []
        for one in terms:
            of_heads = torch.stack([other.coefficient * heads[one.head, other.head] for other in terms])
            of_relations = torch.stack([relations[one.relation, other.relation] for other in terms])
            of_tails = torch.stack([tails[one.tail, other.tail] for other in terms])
            parts.append(one.coefficient * (of_heads * of_relations * of_tails).sum())
        return self.scale**2 * torch.stack(parts).sum()

    def moduli(self, rows: Tensor) -> Tensor:
        if not self.table.numbers:
            return rows.abs()
        blocks = self._blocks(rows)
        parts = [[int(block) for block in number] for number in self.table.numbers.split()]
        tiny = torch.finfo(rows.dtype).tiny ** 0.5  # keeps the root's slope finite at zero
        squares = blocks.square().unbind(-2)  # indexing by a list would copy it to the device
        return torch.cat([(torch.stack([squares[b] for b in own]).sum(0) + tiny).sqrt() for own in parts], dim=-1)

    def _blocks(self, rows: Tensor) -> Tensor:
        result: Tensor = rows.unflatten(-1, (-1, self.dim))
        return result

    def _query(self, blocks: int, order: tuple[int, int, int], left_rows: Tensor, right_rows: Tensor) -> Tensor:
        """Return Σ c · left · right by block of the missing argument; `order` places (left, right, missing)."""
        in_parallel = left_rows.dim() == right_rows.dim() == 2 and len(left_rows) == len(right_rows)
        whole_vectors = self.dim % 4 == 0  # else Triton may read and write past a block's end (see gpu_kernels.py)
        has_kernel = HAS_TRITON and whole_vectors and self.table.most_blocks <= GPU_BLOCKS
        if in_parallel and has_kernel and left_rows.is_cuda and left_rows.dtype == torch.float32:
            return self._query_on_gpu(blocks, order, left_rows, right_rows)
        left, right = self._blocks(left_rows), self._blocks(right_rows)
        sums: list[Tensor | None] = [None] * blocks
        for term in self.table.terms:
            a, b, missing = (int(term[position]) for position in order)
            product = left[..., a, :] * right[..., b, :] * (self.scale * term.coefficient)
            total = sums[missing]
            sums[missing] = product if total is None else total + product
        shape = torch.broadcast_shapes(left[..., 0, :].shape, right[..., 0, :].shape)
        empty = left.new_zeros(()).expand(shape)
        return torch.cat([empty if total is None else total for total in sums], dim=-1)

    def _query_on_gpu(self, blocks: int, order: tuple[int, int, int], left: Tensor, right: Tensor) -> Tensor:
        from staypositive.models.gpu import BlockProduct

        terms = tuple((*(int(term[place]) for place in order), term.coefficient < 0) for term in self.table.terms)
        counts = (left.shape[1] // self.dim, right.shape[1] // self.dim, blocks)
        found: Tensor = BlockProduct.apply(left, right, terms, counts, self.scale * abs(self.table.weight))  # type: ignore[no-untyped-call]
        return found
