"""All rows that could answer a query, and how the squares of their scores add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def gram_is_less_work(queries: int, count: int, width: int) -> bool:
    """Return whether G takes fewer products for so many queries, gradients included, than scoring every row.

    G costs 2 · count · width² to form and to spread, and 4 · queries · width² to ask; all scores cost
    3 · queries · count · width.
    """
    return 2 * width * (count + 2 * queries) < 3 * queries * count


@dataclass(frozen=True)
class Candidates:
    """All rows that could answer a query: given themselves, or by their Gram matrix G = Σ row rowᵀ alone."""

    rows: Tensor
    given: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, queries: int) -> Candidates:
        """Take all rows; G is formed at once where that makes so many queries less work."""
        return cls(rows, gram(rows) if gram_is_less_work(queries, *rows.shape) else None)

    def gram(self) -> Tensor:
        """Return G, shape (width, width)."""
        return gram(self.rows) if self.given is None else self.given

    def sum_squares(self, queries: Tensor) -> Tensor:
        """Return Σ (q · row)² over all rows for each query, shape (n,): qᵀGq, or one by one."""
        if self.given is None:
            return (queries @ self.rows.T).square().sum(-1)
        return ((queries @ self.given) * queries).sum(-1)


class _Gram(torch.autograd.Function):
    """G = XᵀX; since G is symmetric, one product gives the gradient of X where plain autograd takes two."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return rows.T @ rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (rows,) = ctx.saved_tensors
        return spread(rows, gradients[0])


def gram(rows: Tensor) -> Tensor:
    """Return G = Σ row rowᵀ, shape (width, width)."""
    found: Tensor = _Gram.apply(rows)  # type: ignore[no-untyped-call]
    return found


def spread(rows: Tensor, gradient: Tensor) -> Tensor:
    """Return what a gradient of G means for each row that it is made of."""
    return rows @ (gradient + gradient.T)
