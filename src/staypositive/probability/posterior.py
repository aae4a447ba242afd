"""Probabilities from facts alone: the density of true answers' z-scores against that of the null distribution.

A wrong answer's z-score is close to N(0, 1) (see `null_distribution.py`), and held-out facts show the density of true
ones. Their ratio, times the prior odds, is a posterior. It assumes that wrong triples are pairs of the relation's own
domain and range. Where a range has few answers, in-range candidates of held-out queries give the null density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.probability.calibrators import FeatureCalibrator, Truth
from staypositive.probability.null_distribution import Features, Floats, Ints

STATISTICS = ("tail", "head", "combined")
GRID = 400
ENOUGH = 50  # facts from which a relation has a curve of its own
POOLED = 200.0  # weight, in facts, of all relations' curve in each relation's own
Curves = tuple[Floats, dict[int, Floats]]  # log-ratios at the knots: of all facts, and by relation with enough


@dataclass(frozen=True)
class Posterior(FeatureCalibrator):
    """ln f(z) − ln f₀(z), at prior ½: f the density of held-out facts' z, by kernels on asinh z, f₀ the null density.

    f₀ is N(0, 1) or, for a small range, the density of in-range candidates, the other answers of held-out queries.
    z is the tail's, the head's, or both combined, whichever separates held-out facts best from the null distribution
    (five-fold cross-validation on facts). The log-ratio never falls as z rises, and is bounded by what the number of
    facts can show. Relations with enough facts have curves of their own, drawn to the one of all.
    """

    name: ClassVar[str] = "posterior"
    needs_labels: ClassVar[bool] = False
    statistic: str
    knots: tuple[float, ...]
    pooled: tuple[float, ...]
    relations: tuple[int, ...]
    curves: tuple[tuple[float, ...], ...]

    @classmethod
    def fit_features(
        cls, features: Features, truth: Truth, candidates: Features | None = None, statistic: str = ""
    ) -> Posterior:
        """Fit to the true triples among these; false ones are not looked at."""
        facts = features.select(truth)
        chosen = statistic or min((losses := cls.expected_losses(facts, candidates)), key=losses.__getitem__)
        sample = _Sample.of(facts, candidates, chosen)
        pooled, own = sample.curves()
        curves = tuple(tuple(curve.tolist()) for curve in own.values())
        return cls(0.5, chosen, tuple(sample.knots.tolist()), tuple(pooled.tolist()), tuple(own), curves)

    @staticmethod
    def expected_losses(facts: Features, candidates: Features | None = None) -> dict[str, float]:
        """Return the NLL to expect at prior ½ by each statistic, from held-out facts and null distributions alone."""
        if len(facts) < 10:
            raise InputError(f"a posterior needs at least 10 held-out facts, and there are {len(facts)}")
        return {name: _Sample.of(facts, candidates, name).held_out_loss() for name in STATISTICS}

    def apply_features(self, features: Features) -> Floats:
        curves = (np.array(self.pooled), dict(zip(self.relations, map(np.array, self.curves), strict=True)))
        return _log_odds(_statistic(features, self.statistic), features.relations, np.array(self.knots), curves)


@dataclass(frozen=True)
class _Sample:
    """Held-out facts by one statistic, and the in-range candidates that they are told from."""

    values: Floats
    relations: Ints
    candidates: dict[int, Floats]  # by relation, where its range was looked at
    knots: Floats

    @classmethod
    def of(cls, facts: Features, candidates: Features | None, name: str) -> _Sample:
        values, others = _statistic(facts, name), {}
        if candidates is not None:
            theirs = _statistic(candidates, name)
            others = {int(r): theirs[candidates.relations == r] for r in np.unique(candidates.relations)}
        ends = [values, *others.values()]
        low, high = min(part.min() for part in ends), max(part.max() for part in ends)
        return cls(values, facts.relations, others, np.linspace(min(-3.5, low - 0.5), max(3.5, high + 0.5), GRID))

    def curves(self, chosen: NDArray[np.bool_] | None = None) -> Curves:
        keep = np.ones(len(self.values), dtype=bool) if chosen is None else chosen
        values, relations = self.values[keep], self.relations[keep]
        counts = dict(zip(*(part.tolist() for part in np.unique(relations, return_counts=True)), strict=True))
        width = kernel_width(values)
        whole = kernel_density(values, self.knots, width)
        null = sum(count * self.null_density(relation, width) for relation, count in counts.items()) / len(values)
        own = {}
        for relation, count in counts.items():
            if count < ENOUGH:
                continue
            mine = values[relations == relation]
            narrow = kernel_width(mine)
            # The other relations' facts say nothing of a range that was looked at member by member.
            share = 1.0 if relation in self.candidates else count / (count + POOLED)
            density = share * kernel_density(mine, self.knots, narrow) + (1 - share) * whole
            own[relation] = _log_ratio(density, self.null_density(relation, narrow), self.knots, count / share)
        return _log_ratio(whole, null, self.knots, len(values)), own

    def null_density(self, relation: int, width: float) -> Floats:
        others = self.candidates.get(relation)
        return null_density(self.knots) if others is None else kernel_density(others, self.knots, width)

    def held_out_loss(self, folds: int = 5) -> float:
        """Return the NLL at prior ½ of facts that the curves were not fitted to, and of the null distribution."""
        fold, width, total = np.arange(len(self.values)) % folds, kernel_width(self.values), 0.0
        for held in range(folds):
            pooled, own = self.curves(fold != held)
            values, relations = self.values[fold == held], self.relations[fold == held]
            total += float(np.logaddexp(0, -_log_odds(values, relations, self.knots, (pooled, own))).sum())
            for relation, count in zip(*np.unique(relations, return_counts=True), strict=True):
                null = self.null_density(int(relation), width)
                wrong = np.logaddexp(0, own.get(int(relation), pooled))
                total += count * float((null * wrong).sum() / null.sum())
        return total / 2 / len(self.values)


def _statistic(features: Features, name: str) -> Floats:
    return np.asarray(np.arcsinh(getattr(features, f"{name}_z")))


def _log_odds(values: Floats, relations: Ints, knots: Floats, curves: Curves) -> Floats:
    """Return the log-ratio of values, by their relations' curves or else by that of all."""
    (pooled, own), logits = curves, np.empty(len(values))
    for relation in np.unique(relations).tolist():
        mine = relations == relation
        logits[mine] = np.interp(values[mine], knots, own.get(relation, pooled))
    return logits


def _log_ratio(density: Floats, null: Floats, knots: Floats, count: float) -> Floats:
    """Ln f/f₀, made non-decreasing; each density has a share 1/(n+2) of the other's, so that nothing is certain.

    Where it would fall, f/(f + f₀) is averaged, since that keeps the averaged probabilities right.
    """
    from sklearn.isotonic import IsotonicRegression

    share = 1 / (count + 2)
    true = (1 - share) * density + share * null
    false = (1 - share) * null + share * density
    total = np.maximum(true + false, 1e-300)
    chances = IsotonicRegression().fit_transform(knots, true / total, sample_weight=total + 1e-9)
    chances = np.clip(chances, share, 1 - share)
    return np.asarray(np.log(chances) - np.log1p(-chances))


def null_density(u: Floats) -> Floats:
    """Return the density of u = asinh z for z from N(0, 1)."""
    return np.asarray(np.exp(-0.5 * np.sinh(u) ** 2) / np.sqrt(2 * np.pi) * np.cosh(u))


def kernel_width(values: Floats) -> float:
    """Return Silverman's width of a Gaussian kernel."""
    low, high = np.quantile(values, [0.25, 0.75])
    std = min(values.std(), (high - low) / 1.34) or values.std() or 0.1
    return float(max(0.9 * std * len(values) ** -0.2, 0.02))


def kernel_density(values: Floats, knots: Floats, width: float | None = None) -> Floats:
    """Return a Gaussian kernel estimate at evenly spaced knots, by default of Silverman's width.

    Each value is shared between the two nearest points of a finer grid, in steps of at most an eighth of the width,
    and the grid is convolved with the kernel, cut at six widths: the cost per value does not depend on the knots.
    """
    width = kernel_width(values) if width is None else width
    finer = math.ceil(8 * (knots[1] - knots[0]) / width)
    step = (knots[1] - knots[0]) / finer
    margin = math.ceil(6 * width / step)
    places = (values - knots[0]) / step + margin
    size = finer * (len(knots) - 1) + 2 * margin + 1
    places = places[(places >= 0) & (places < size - 1)]
    below = np.floor(places).astype(np.int64)
    above = places - below
    mass = np.bincount(below, 1 - above, size) + np.bincount(below + 1, above, size)
    kernel = np.exp(-0.5 * (np.arange(-margin, margin + 1) * step / width) ** 2)
    sums = np.convolve(mass, kernel, mode="valid")[::finer]
    return np.asarray(sums / (len(values) * width * np.sqrt(2 * np.pi)))
