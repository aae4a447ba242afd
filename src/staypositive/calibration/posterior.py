"""Probabilities from the background: no negative label is used, or, with labels, a small logistic model.

A wrong answer's z-score is close to N(0, 1) (see `background.py`), so what is needed of true ones is the density of
their z alone, and held-out facts show it. Density against N(0, 1), times the prior odds, is a posterior. It assumes
that wrong triples are pairs of the relation's own domain and range.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.calibration.background import Features, Floats
from staypositive.calibration.maps import Calibrator
from staypositive.errors import InputError

STATISTICS = ("tail", "head", "combined")
GRID = 400
ENOUGH = 50
"""Facts from which a relation has a curve of its own."""
POOLED = 200.0
"""So many facts of all relations are added to each relation's own."""


class FeatureCalibrator(Calibrator):
    """A calibrator of triples, by their background."""

    @classmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Calibrator:
        """Not by logits."""
        raise InputError(f"{cls.name} is fitted to triples with their background, not to logits")

    def apply(self, logits: ArrayLike) -> Floats:
        """Not to logits."""
        raise InputError(f"{self.name} judges triples by their background, not by one number")

    @classmethod
    @abstractmethod
    def fit_features(cls, features: Features, truth: NDArray[np.bool_]) -> FeatureCalibrator:
        """Fit to validation triples."""

    @abstractmethod
    def apply_features(self, features: Features) -> Floats:
        """Return calibrated logits."""


@dataclass(frozen=True)
class Posterior(FeatureCalibrator):
    """ln f(z) − ln N(z; 0, 1), at prior ½: f the density of held-out facts' z, by kernels on asinh z.

    z is the tail's, the head's, or both combined, whichever tells held-out facts from the background best (the mean
    log-ratio in five-fold cross-validation, on facts alone). The log-ratio never falls as z rises, and is bounded by
    what so many facts can show. Relations with enough facts have curves of their own, drawn to the one of all.
    """

    name: ClassVar[str] = "posterior"
    statistic: str
    knots: tuple[float, ...]
    pooled: tuple[float, ...]
    relations: tuple[int, ...]
    curves: tuple[tuple[float, ...], ...]

    @classmethod
    def fit_features(cls, features: Features, truth: NDArray[np.bool_], statistic: str = "") -> Posterior:
        """Fit to the true triples among these; false ones are not looked at."""
        facts = features.select(truth)
        if len(facts) < 10:
            raise InputError(f"a posterior needs at least 10 held-out facts, and there are {len(facts)}")
        chosen = statistic or max(STATISTICS, key=lambda name: _held_out_ratio(_statistic(facts, name)))
        values = _statistic(facts, chosen)
        knots = np.linspace(min(-3.5, values.min() - 0.5), max(3.5, values.max() + 0.5), GRID)
        whole = kernel_density(values, knots)
        relations, counts = np.unique(facts.relations, return_counts=True)
        own = [int(relation) for relation, count in zip(relations, counts, strict=True) if count >= ENOUGH]
        curves = []
        for relation in own:
            mine = values[facts.relations == relation]
            mixed = (len(mine) * kernel_density(mine, knots) + POOLED * whole) / (len(mine) + POOLED)
            curves.append(tuple(_log_ratio(mixed, knots, len(mine) + POOLED).tolist()))
        pooled = tuple(_log_ratio(whole, knots, len(values)).tolist())
        return cls(0.5, chosen, tuple(knots.tolist()), pooled, tuple(own), tuple(curves))

    def apply_features(self, features: Features) -> Floats:
        """Return the log-ratio of each triple's z."""
        values = _statistic(features, self.statistic)
        logits = np.interp(values, self.knots, self.pooled)
        for relation, curve in zip(self.relations, self.curves, strict=True):
            mine = features.relations == relation
            logits[mine] = np.interp(values[mine], self.knots, curve)
        return np.asarray(logits, dtype=np.float64)


@dataclass(frozen=True)
class BackgroundLogistic(FeatureCalibrator):
    """Logistic regression on both sides' scores and asinh z-scores, and their products, with labelled triples.

    Relations with enough labelled triples have a slope and an offset of their own on top, drawn to 1 and 0. What lies
    beyond the values that it was fitted to counts as the outermost of them: a square knows nothing of what is far.
    """

    name: ClassVar[str] = "background-logistic"
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    centres: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    relations: tuple[int, ...] = ()
    lines: tuple[tuple[float, float], ...] = ()

    @classmethod
    def fit_features(cls, features: Features, truth: NDArray[np.bool_]) -> BackgroundLogistic:
        """Fit with a light L2 penalty."""
        from sklearn.linear_model import LogisticRegression

        values = _values(features)
        columns = _products(values)
        centres, spreads = columns.mean(0), columns.std(0) + 1e-12
        scaled = (columns - centres) / spreads
        model = LogisticRegression(C=10.0, max_iter=3000).fit(scaled, truth)
        weights, offset = model.coef_[0], float(model.intercept_[0])
        common = scaled @ weights + offset
        found, counts = np.unique(features.relations, return_counts=True)
        relations = found[counts >= ENOUGH].tolist()
        lines = [_line(common[mine], truth[mine]) for mine in (features.relations == r for r in relations)]
        low, high, centre, spread, weight = (
            tuple(map(float, part)) for part in (values.min(0), values.max(0), centres, spreads, weights)
        )
        return cls(float(truth.mean()), low, high, centre, spread, weight, offset, tuple(relations), tuple(lines))

    def apply_features(self, features: Features) -> Floats:
        """Return the linear part, by the relation's own line if it has one."""
        columns = _products(np.clip(_values(features), self.lowest, self.highest))
        logits = np.asarray((columns - self.centres) / np.array(self.spreads) @ np.array(self.weights) + self.offset)
        for relation, (slope, offset) in zip(self.relations, self.lines, strict=True):
            mine = features.relations == relation
            logits[mine] = slope * logits[mine] + offset
        return logits


def _line(logits: Floats, truth: NDArray[np.bool_], draw: float = 10.0, steps: int = 30) -> tuple[float, float]:
    """Fit truth ~ slope · logit + offset by Newton's method, with a penalty that draws the line to (1, 0)."""
    columns, prior, line = (
        np.stack([logits, np.ones_like(logits)], axis=1),
        np.array([1.0, 0.0]),
        np.array([1.0, 0.0]),
    )
    for _ in range(steps):
        chances = 1 / (1 + np.exp(-columns @ line))
        slope = columns.T @ (truth - chances) - draw * (line - prior)
        curvature = (columns * (chances * (1 - chances))[:, None]).T @ columns + draw * np.eye(2)
        line = line + np.linalg.solve(curvature, slope)
    return float(line[0]), float(line[1])


def _values(features: Features) -> Floats:
    z = (np.arcsinh(features.tail_z), np.arcsinh(features.head_z))
    return np.stack([features.tail_scores, features.head_scores, *z], axis=1)


def _products(values: Floats) -> Floats:
    """Return values, shape (n, k), with the products of each two of them beside."""
    pairs = combinations_with_replacement(range(values.shape[1]), 2)
    return np.column_stack([values, *(values[:, i] * values[:, j] for i, j in pairs)])


def _statistic(features: Features, name: str) -> Floats:
    z = {"tail": features.tail_z, "head": features.head_z, "combined": features.combined_z}[name]
    return np.asarray(np.arcsinh(z))


def background_density(u: Floats) -> Floats:
    """The density of u = asinh z for z from N(0, 1)."""
    return np.asarray(np.exp(-0.5 * np.sinh(u) ** 2) / np.sqrt(2 * np.pi) * np.cosh(u))


def kernel_density(values: Floats, knots: Floats) -> Floats:
    """A Gaussian kernel estimate at the knots, with Silverman's width."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), (high - low) / 1.34) or values.std() or 0.1
    width = max(0.9 * spread * len(values) ** -0.2, 0.02)
    kernels = np.exp(-0.5 * ((knots[:, None] - values[None, :]) / width) ** 2)
    return np.asarray(kernels.mean(1) / (width * np.sqrt(2 * np.pi)))


def _log_ratio(density: Floats, knots: Floats, count: float) -> Floats:
    """Ln f/f₀, made non-decreasing; each density has a share 1/(n+2) of the other's, so that nothing is certain."""
    from sklearn.isotonic import IsotonicRegression

    background, share = background_density(knots), 1 / (count + 2)
    true = (1 - share) * density + share * background
    false = (1 - share) * background + share * density
    tiny = 1e-300
    ratio = np.log(np.maximum(true, tiny)) - np.log(np.maximum(false, tiny))
    weights = true + false + 1e-9
    return np.asarray(IsotonicRegression().fit_transform(knots, ratio, sample_weight=weights))


def _held_out_ratio(values: Floats, folds: int = 5) -> float:
    """The mean log-ratio of facts that the curve was not fitted to."""
    fold = np.arange(len(values)) % folds
    total = 0.0
    for held in range(folds):
        train, test = values[fold != held], values[fold == held]
        knots = np.linspace(min(-3.5, values.min() - 0.5), max(3.5, values.max() + 0.5), GRID)
        curve = _log_ratio(kernel_density(train, knots), knots, len(train))
        total += float(np.interp(test, knots, curve).sum())
    return total / len(values)
