"""Sums, means and variances of the scores of all pairs of two sets of rows, without enumerating the pairs.

A relation's scores are φ = hᵀZt. Two query maps stand for the matrix Z: `to_tail` is h ↦ Zᵀh, `to_head` is t ↦ Zt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

LinearMap = Callable[[Tensor], Tensor]
"""From rows of one side of a relation to queries for the other, row by row."""


def sum_of_squared_scores(to_tail: LinearMap, to_head: LinearMap, heads: Tensor, tails: Tensor) -> Tensor:
    """Return tr(Zᵀ H Z T) = Σ φ² over heads × tails, given their Gram matrices H = Σ h hᵀ and T = Σ t tᵀ.

    A map applied to the rows of H is the product HZ. Of covariances, it is the variance of their interaction.
    """
    return (to_tail(heads) * to_head(tails).mT).sum((-2, -1))


@dataclass(frozen=True)
class RowMoments:
    """Mean row and covariance of a set of rows.

    Centred rather than sum and Gram matrix, so that a variance never is a small difference of two large numbers.
    """

    count: int
    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> RowMoments:
        mean = rows.mean(0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred / len(rows))

    def of_query(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of `query · row` over the set: q·m and qᵀCq, shape (...)."""
        return query @ self.mean, ((query @ self.covariance) * query).sum(-1)

    def of_scores(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each query's scores over the set, the latter never zero."""
        mean, variance = self.of_query(queries)
        return mean, variance.clamp(min=1e-24).sqrt()

    def z_scores(self, queries: Tensor, scores: Tensor) -> Tensor:
        """Return (score − mean) / standard deviation, by query; shape of scores, (n,) or (n, m)."""
        mean, std = self.of_scores(queries)
        shape = mean.shape + (1,) * (scores.dim() - mean.dim())
        return (scores - mean.view(shape)) / std.view(shape)


@dataclass(frozen=True)
class ScoreMoments:
    """Moments of φ over heads × tails. A score is mean + head's part + tail's part + interaction."""

    mean: Tensor
    of_heads: Tensor  # variance of the head's part: of a head's mean score
    of_tails: Tensor
    interaction: Tensor  # variance of what pairs add to their head's and their tail's part

    @property
    def variance(self) -> Tensor:
        return self.of_heads + self.of_tails + self.interaction  # the parts are uncorrelated


def score_moments(to_tail: LinearMap, to_head: LinearMap, heads: RowMoments, tails: RowMoments) -> ScoreMoments:
    """Return the moments of φ = hᵀZt over heads × tails.

    With h and t independent, of means h̄, t̄ and covariances C, D, the variances are t̄ᵀZᵀ C Z t̄, h̄ᵀZ D Zᵀh̄ and
    tr(Zᵀ C Z D).
    """
    from_heads, from_tails = to_tail(heads.mean), to_head(tails.mean)
    interaction = sum_of_squared_scores(to_tail, to_head, heads.covariance, tails.covariance)
    of_heads, of_tails = heads.of_query(from_tails)[1], tails.of_query(from_heads)[1]
    return ScoreMoments((from_heads * tails.mean).sum(-1), of_heads, of_tails, interaction)
