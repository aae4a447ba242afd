"""What an objective must know of all rows at once: nothing, their sum, their Gram matrix, or the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor


class Statistic(Enum):
    """What a loss needs of the rows beyond those of its facts, from cheap to dear."""

    NONE = "none"
    SUM = "sum"
    """S = Σ row, one vector: the sum of all scores is the score of S (Theorem 1)."""
    GRAM = "gram"
    """G = Σ row rowᵀ, one matrix: the squares of a query's scores add up to qᵀGq."""
    ROWS = "rows"
    """Every row."""

    def of(self, rows: Tensor) -> Tensor:
        """Return what rows, shape (n, width), add to S or G."""
        return rows.sum(0) if self is Statistic.SUM else rows.T @ rows

    def spread(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """Return what a gradient of S or G means for each row that it is made of, shape (n, width)."""
        return gradient.expand_as(rows) if self is Statistic.SUM else rows @ (gradient + gradient.T)


def gram_is_less_work(queries: int, count: int, width: int) -> bool:
    """Return whether G takes fewer products for this number of queries, gradients included, than scoring every row.

    G costs 2 · count · width² to form and to spread, and 4 · queries · width² to ask; all scores cost
    3 · queries · count · width.
    """
    return 2 * width * (count + 2 * queries) < 3 * queries * count


@dataclass(frozen=True)
class Candidates:
    """All rows that could answer a query: given themselves, or by their Gram matrix G = Σ row rowᵀ."""

    rows: Tensor
    given: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, queries: int) -> Candidates:
        """Take all rows; G is formed at once where that makes this number of queries less work."""
        return cls(rows, gram(rows) if gram_is_less_work(queries, *rows.shape) else None)

    def gram(self) -> Tensor:
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
        return Statistic.GRAM.of(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (rows,) = ctx.saved_tensors
        return Statistic.GRAM.spread(rows, gradients[0])


def gram(rows: Tensor) -> Tensor:
    """Return G = Σ row rowᵀ, shape (width, width)."""
    found: Tensor = _Gram.apply(rows)  # type: ignore[no-untyped-call]
    return found
