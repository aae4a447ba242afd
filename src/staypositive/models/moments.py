"""First and second moments of a set of rows, from which the moments of any query's scores follow."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class RowMoments:
    """Mean row and covariance of a set of rows.

    They are kept centred rather than as sum and Gram matrix, so that a variance never is a small difference of two
    large numbers; the Gram matrix over the set is `count · (covariance + mean meanᵀ)`.
    """

    count: int
    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> RowMoments:
        """Return the moments of rows, shape (n, width), each counted once."""
        mean = rows.mean(0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred / len(rows))

    def of_query(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of `query · row` over the set: q·m and qᵀCq, shape (...)."""
        return query @ self.mean, ((query @ self.covariance) * query).sum(-1)
