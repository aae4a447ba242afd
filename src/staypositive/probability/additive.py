"""Additive log-odds: hinges of each feature, and what each relation adds of its own, fitted to counted pairs.

Held-out facts are compared with all unknown pairs, some of which are true and missing. Where n held-out facts look
like m unknown pairs, ρ·n of those are true, ρ being missing facts per held-out one. So an unknown pair that is true
with probability p is, among both, a held-out fact with probability q = p / (ρ + p): p = σ(g) is fitted through q, by
maximum likelihood with ridge penalties.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.probability.null_distribution import Floats, Ints

BENDS = 4  # of each feature, at quantiles of held-out facts
RIDGE = 5.0
OWN_RIDGE, OWN_OFFSET_RIDGE = 10.0, 0.5  # of what relations add: the smaller, the less is shared
TURNS = 3  # of fitting the common part and the relations' parts
ROWS = 100_000  # judged at once
MOST_SIZE = 1e12  # of a number of a file


def expit(log_odds: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.expit(log_odds))


@dataclass(frozen=True)
class Sample:
    """Held-out facts, each of weight 1, and unknown pairs, each of which stands for as many as its weight says."""

    features: Floats
    relations: Ints
    is_fact: NDArray[np.bool_]
    weights: Floats

    def select(self, keep: NDArray[Any]) -> Sample:
        return Sample(self.features[keep], self.relations[keep], self.is_fact[keep], self.weights[keep])


@dataclass(frozen=True)
class Basis:
    """Features cut off where held-out facts end, beyond each of their bends; standardised."""

    low: Floats
    high: Floats
    columns: Ints
    bends: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, sample: Sample) -> Basis:
        facts = sample.features[sample.is_fact]
        low = np.minimum(np.quantile(facts, 0.002, axis=0), sample.features.min(0))
        high = np.maximum(np.quantile(facts, 0.998, axis=0), low)
        places = np.linspace(0, 1, BENDS + 2)[1:-1]
        bends = [
            [least, *(bend for bend in np.unique(np.quantile(values, places)) if least < bend - 1e-6 < most - 2e-6)]
            for values, least, most in zip(facts.T, low, high, strict=True)
        ]
        columns = np.repeat(np.arange(len(bends)), [len(own) for own in bends])
        plain = cls(low, high, columns, np.concatenate(bends), np.zeros(len(columns)), np.ones(len(columns)))
        values = plain(sample.features)
        return cls(low, high, columns, plain.bends, values.mean(0), values.std(0) + 1e-6)

    def __call__(self, features: Floats) -> Floats:
        found = np.clip(features, self.low, self.high)[:, self.columns]
        found -= self.bends
        np.maximum(found, 0, out=found)
        found -= self.mean
        found /= self.scale
        return found


@dataclass(frozen=True)
class Additive:
    """Log-odds g of unknown pairs: a slope for each hinge, and for each relation an offset and slopes of its own."""

    basis: Basis
    slopes: Floats
    offset: float
    own_columns: Ints
    own_mean: Floats
    own_scale: Floats
    own: Floats

    @classmethod
    def blank(cls, sample: Sample, rho: float, own_columns: Ints, n_relations: int) -> Additive:
        """Return one in which every pair is as likely as any, from which `fitted` starts."""
        facts = sample.features[sample.is_fact]
        basis, own_values = Basis.of(sample), facts[:, own_columns]
        slopes, own = np.zeros(len(basis.columns)), np.zeros((n_relations, len(own_columns) + 1))
        offset = float(np.log(rho * len(facts) / sample.weights.sum()))
        return cls(basis, slopes, offset, own_columns, own_values.mean(0), own_values.std(0) + 1e-6, own)

    def fitted(self, sample: Sample, rho: float) -> Additive:
        """Return this one fitted to a sample: the common part and the relations' own in turns."""
        design = np.column_stack([self.basis(sample.features), np.ones(len(sample.features))]).astype(np.float32)
        own_design = self._own_design(sample.features)
        slopes, own = np.append(self.slopes, self.offset), self.own.copy()
        penalty, own_penalty = np.full(len(slopes), RIDGE), np.full(own.shape[1], OWN_RIDGE)
        penalty[-1], own_penalty[0] = 0, OWN_OFFSET_RIDGE
        order = np.argsort(sample.relations, kind="stable")
        groups = np.split(order, np.searchsorted(sample.relations[order], np.arange(1, len(own))))
        shift = (own_design * own[sample.relations]).sum(1)
        for turn in range(TURNS):
            slopes = fit_slopes(design, sample, rho, penalty, slopes, shift, 60 if turn == 0 else 8)
            common = (design @ slopes.astype(design.dtype)).astype(np.float64)
            for relation, rows in enumerate(groups if turn < TURNS - 1 else ()):
                part = sample.select(rows)
                if part.is_fact.any():
                    start = own[relation]
                    own[relation] = fit_slopes(own_design[rows], part, rho, own_penalty, start, common[rows], 10)
                    shift[rows] = own_design[rows] @ own[relation]
        return replace(self, slopes=slopes[:-1], offset=float(slopes[-1]), own=own)

    @property
    def arrays(self) -> tuple[Floats, ...]:
        basis = self.basis
        parts = (basis.low, basis.high, basis.bends, basis.mean, basis.scale)
        return (*parts, self.slopes, self.own_mean, self.own_scale, self.own)

    def fits(self, n_features: int, n_relations: int) -> bool:
        """Return whether all parts have the shapes that so many features and relations need."""
        basis, columns, own = self.basis, len(self.basis.columns), len(self.own_columns)
        chosen = np.concatenate([basis.columns, self.own_columns])
        shapes = [*(array.shape for array in self.arrays), basis.columns.shape]
        wanted = [(n_features,)] * 2 + [(columns,)] * 4 + [(own,)] * 2 + [(n_relations, own + 1), (columns,)]
        return bool(
            shapes == wanted and ((chosen >= 0) & (chosen < n_features)).all()
            and min(basis.scale.min(initial=1), self.own_scale.min(initial=1)) > 1e-9
            and max(abs(self.offset), *(np.abs(array).max(initial=0) for array in self.arrays)) < MOST_SIZE
        )  # fmt: skip

    def log_odds(self, features: Floats, relations: Ints) -> Floats:
        found = np.empty(len(features))
        for first in range(0, len(features), ROWS):
            part = slice(first, first + ROWS)
            common = self.basis(features[part]) @ self.slopes + self.offset
            found[part] = common + (self._own_design(features[part]) * self.own[relations[part]]).sum(1)
        return found

    def _own_design(self, features: Floats) -> Floats:
        values = (features[:, self.own_columns] - self.own_mean) / self.own_scale
        return np.column_stack([np.ones(len(values)), np.clip(values, -3, 3)])


def fit_slopes(
    design: NDArray[Any], sample: Sample, rho: float, penalty: Floats, slopes: Floats, shift: Floats, steps: int
) -> Floats:
    """Minimise the penalised loss of log-odds `shift + design @ slopes`, by Fisher scoring with halved steps."""

    def loss(slopes: Floats) -> tuple[float, Floats]:
        log_odds = shift + design @ slopes.astype(design.dtype)  # of one precision: else the design is copied
        return _loss(log_odds, sample, rho) + 0.5 * float((penalty * slopes**2).sum()), log_odds

    least, log_odds = loss(slopes)
    for _ in range(steps):
        p = expit(log_odds)
        miss = sample.weights * (sample.is_fact - p / (rho + p)) * (1 - p)
        curvature = sample.weights * p * (1 - p) ** 2 * rho / (rho + p) ** 2
        rows = np.flatnonzero(curvature > 1e-7)
        part = design[rows]
        hessian = (part * curvature[rows, None].astype(design.dtype)).T @ part + np.diag(penalty + 1e-3)
        gradient = design.T @ miss.astype(design.dtype) - penalty * slopes
        step = np.linalg.solve(hessian.astype(np.float64), gradient)
        step *= min(1.0, 6.0 / max(float(np.abs(part[::7] @ step.astype(design.dtype)).max(initial=0)), 1e-9))
        for _ in range(12):
            lower, moved = loss(slopes + step)
            if lower < least:
                break
            step /= 2
        else:
            break
        gain, least, slopes, log_odds = least - lower, lower, slopes + step, moved
        if gain < 1e-2:
            break
    return slopes


def _loss(log_odds: Floats, sample: Sample, rho: float) -> float:
    """Return −Σ weight · ln of q for held-out facts and of 1 − q for unknown pairs."""
    log_p = -np.logaddexp(0, -log_odds)
    either = np.logaddexp(np.log(rho), log_p)
    return float((sample.weights * (either - np.where(sample.is_fact, log_p, np.log(rho)))).sum())
