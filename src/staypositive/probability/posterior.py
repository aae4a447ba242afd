"""Probabilities from the background: no negative label is used, or, with labels, a small logistic model.

A wrong answer's z-score is close to N(0, 1) (see `background.py`), so what is needed of true ones is the density of
their z alone, and held-out facts show it. Density against N(0, 1), times the prior odds, is a posterior. It assumes
that wrong triples are pairs of the relation's own domain and range. A range of a few answers has no bell of z-scores;
there the other answers of held-out queries stand in for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.errors import InputError
from staypositive.probability.density import background_density, kernel_density, kernel_width
from staypositive.probability.maps import Calibrator
from staypositive.probability.null_distribution import Features, Floats, Ints

STATISTICS = ("tail", "head", "combined")
GRID = 400
ENOUGH = 50
"""Facts from which a relation has a curve of its own."""
POOLED = 200.0
"""So many facts of all relations are added to each relation's own."""
BENDS = 8
OWN_SCALE = 0.3
"""Relations' own weights are penalised 1/this² times as much as those of all."""


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
    def fit_features(
        cls, features: Features, truth: NDArray[np.bool_], rivals: Features | None = None
    ) -> FeatureCalibrator:
        """Fit to validation triples; `rivals` are other answers of their queries (`NullDistribution.rivals`)."""

    @abstractmethod
    def apply_features(self, features: Features) -> Floats:
        """Return calibrated logits."""


@dataclass(frozen=True)
class Posterior(FeatureCalibrator):
    """ln f(z) − ln f₀(z), at prior ½: f the density of held-out facts' z, by kernels on asinh z, f₀ the background's.

    f₀ is N(0, 1), but for relations whose range is small enough to look at its members: there it is the density of
    `rivals`, the other answers of held-out queries. z is the tail's, the head's, or both combined, whichever tells
    held-out facts from the background best (five-fold cross-validation, on facts alone). The log-ratio never falls as
    z rises, and is bounded by what so many facts can show. Relations with enough facts have curves of their own,
    drawn to the one of all.
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
        cls, features: Features, truth: NDArray[np.bool_], rivals: Features | None = None, statistic: str = ""
    ) -> Posterior:
        """Fit to the true triples among these; false ones are not looked at."""
        facts = features.select(truth)
        chosen = statistic or min((losses := cls.expected_losses(facts, rivals)), key=losses.__getitem__)
        sample = _Sample.of(facts, rivals, chosen)
        pooled, own = sample.curves()
        return cls(0.5, chosen, _tuple(sample.knots), _tuple(pooled), tuple(own), tuple(map(_tuple, own.values())))

    @staticmethod
    def expected_losses(facts: Features, rivals: Features | None = None) -> dict[str, float]:
        """Return the NLL to expect at prior ½ by each statistic, by held-out facts and the background alone."""
        if len(facts) < 10:
            raise InputError(f"a posterior needs at least 10 held-out facts, and there are {len(facts)}")
        return {name: _Sample.of(facts, rivals, name).held_out_loss() for name in STATISTICS}

    def apply_features(self, features: Features) -> Floats:
        """Return the log-ratio of each triple's z."""
        own = dict(zip(self.relations, map(np.array, self.curves), strict=True))
        knots, pooled = np.array(self.knots), np.array(self.pooled)
        return _read(_statistic(features, self.statistic), features.relations, knots, pooled, own)


@dataclass(frozen=True)
class _Sample:
    """Held-out facts by one statistic, and the answers that they are told from."""

    values: Floats
    relations: Ints
    rivals: dict[int, Floats]
    """By relation, where its range was looked at."""
    knots: Floats

    @classmethod
    def of(cls, facts: Features, rivals: Features | None, name: str) -> _Sample:
        values, others = _statistic(facts, name), {}
        if rivals is not None:
            theirs = _statistic(rivals, name)
            others = {int(r): theirs[rivals.relations == r] for r in np.unique(rivals.relations)}
        ends = [values, *others.values()]
        low, high = min(part.min() for part in ends), max(part.max() for part in ends)
        return cls(values, facts.relations, others, np.linspace(min(-3.5, low - 0.5), max(3.5, high + 0.5), GRID))

    def curves(self, chosen: NDArray[np.bool_] | None = None) -> tuple[Floats, dict[int, Floats]]:
        """Return the log-ratio of all facts at the knots, and those of relations with enough of them."""
        keep = np.ones(len(self.values), dtype=bool) if chosen is None else chosen
        values, relations = self.values[keep], self.relations[keep]
        found, counts = np.unique(relations, return_counts=True)
        width = kernel_width(values)
        whole = kernel_density(values, self.knots, width)
        backgrounds = {int(relation): self.background(int(relation), width) for relation in found}
        common = sum(count * backgrounds[int(r)] for r, count in zip(found, counts, strict=True)) / len(values)
        own = {}
        for relation, count in zip(found.tolist(), counts.tolist(), strict=True):
            if count < ENOUGH:
                continue
            mine = values[relations == relation]
            narrow = kernel_width(mine)
            share = count / (count + POOLED)
            if relation in self.rivals:  # what others' facts have in common says nothing of so few answers
                share = 1.0
            density = share * kernel_density(mine, self.knots, narrow) + (1 - share) * whole
            own[relation] = _log_ratio(density, self.background(relation, narrow), self.knots, count / share)
        return _log_ratio(whole, common, self.knots, len(values)), own

    def background(self, relation: int, width: float) -> Floats:
        """Return the density of a relation's wrong answers at the knots."""
        others = self.rivals.get(relation)
        return background_density(self.knots) if others is None else kernel_density(others, self.knots, width)

    def held_out_loss(self, folds: int = 5) -> float:
        """The NLL at prior ½ of facts that the curves were not fitted to, and of the background."""
        fold = np.arange(len(self.values)) % folds
        total = 0.0
        for held in range(folds):
            pooled, own = self.curves(fold != held)
            test = fold == held
            logits = _read(self.values[test], self.relations[test], self.knots, pooled, own)
            total += float(np.logaddexp(0, -logits).sum())
            for relation, count in zip(*np.unique(self.relations[test], return_counts=True), strict=True):
                background = self.background(int(relation), kernel_width(self.values))
                wrong = np.logaddexp(0, own.get(int(relation), pooled))
                total += count * float((background * wrong).sum() / background.sum())
        return total / 2 / len(self.values)


@dataclass(frozen=True)
class NullLogistic(FeatureCalibrator):
    """Logistic regression on both sides' scores and asinh z-scores, bent at quantiles, with labelled triples.

    Each of the four values, and the sums and differences of both sides, adds a line that may bend at some quantiles.
    Relations with enough labelled triples have weights of their own on top, drawn to none. What lies beyond the
    values that it was fitted to counts as the outermost of them.
    """

    name: ClassVar[str] = "null-logistic"
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    bends: tuple[tuple[float, ...], ...]
    centres: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    relations: tuple[int, ...] = ()
    own_weights: tuple[tuple[float, ...], ...] = ()
    """Of the four values and of 1, by relation."""

    @classmethod
    def fit_features(
        cls, features: Features, truth: NDArray[np.bool_], rivals: Features | None = None
    ) -> NullLogistic:
        """Fit with a light L2 penalty; labelled triples are enough, and rivals are not looked at."""
        from sklearn.linear_model import LogisticRegression

        values = _values(features)
        bends = [np.unique(np.quantile(line, np.arange(1, BENDS + 1) / (BENDS + 1))) for line in _lines(values).T]
        columns = _bent(values, bends)
        centres, spreads = columns.mean(0), columns.std(0) + 1e-12
        scaled = (columns - centres) / spreads
        found, counts = np.unique(features.relations, return_counts=True)
        relations = found[counts >= ENOUGH].tolist()
        own = [OWN_SCALE * (features.relations == r)[:, None] * _with_one(scaled) for r in relations]
        model = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-8).fit(np.hstack([scaled, *own]), truth)
        weights, of_relations = model.coef_[0, : scaled.shape[1]], model.coef_[0, scaled.shape[1] :]
        return cls(
            float(truth.mean()),
            lowest=_tuple(values.min(0)),
            highest=_tuple(values.max(0)),
            bends=tuple(map(_tuple, bends)),
            centres=_tuple(centres),
            spreads=_tuple(spreads),
            weights=_tuple(weights),
            offset=float(model.intercept_[0]),
            relations=tuple(relations),
            own_weights=tuple(map(_tuple, OWN_SCALE * of_relations.reshape(len(relations), VALUES + 1))),
        )

    def apply_features(self, features: Features) -> Floats:
        """Return the linear part, with the relation's own weights if it has them."""
        values = np.clip(_values(features), self.lowest, self.highest)
        scaled = (_bent(values, map(np.array, self.bends)) - self.centres) / np.array(self.spreads)
        logits = np.asarray(scaled @ np.array(self.weights) + self.offset)
        own = dict(zip(self.relations, self.own_weights, strict=True))
        for relation in own.keys() & np.unique(features.relations).tolist():
            mine = features.relations == relation
            logits[mine] += _with_one(scaled[mine]) @ np.array(own[relation])
        return logits


VALUES = 4


def _values(features: Features) -> Floats:
    z = (np.arcsinh(features.tail_z), np.arcsinh(features.head_z))
    return np.stack([features.tail_scores, features.head_scores, *z], axis=1)


def _lines(values: Floats) -> Floats:
    """Return the four values, the sum and difference of both z, and the difference of both scores."""
    tail, head, tail_z, head_z = values.T
    return np.column_stack([values, tail_z + head_z, tail_z - head_z, tail - head])


def _bent(values: Floats, bends: Iterable[Floats]) -> Floats:
    """Return the lines, and beside them how far each lies beyond each of its bends."""
    lines = _lines(values)
    beyond = [np.maximum(0, line[:, None] - own) for line, own in zip(lines.T, bends, strict=True)]
    return np.hstack([lines, *beyond])


def _with_one(scaled: Floats) -> Floats:
    return np.column_stack([scaled[:, :VALUES], np.ones(len(scaled))])


def _statistic(features: Features, name: str) -> Floats:
    z = {"tail": features.tail_z, "head": features.head_z, "combined": features.combined_z}[name]
    return np.asarray(np.arcsinh(z))


def _log_ratio(density: Floats, background: Floats, knots: Floats, count: float) -> Floats:
    """Ln f/f₀, made non-decreasing; each density has a share 1/(n+2) of the other's, so that nothing is certain.

    Where it would fall, f/(f + f₀) is averaged, since that keeps the averaged probabilities right.
    """
    from sklearn.isotonic import IsotonicRegression

    share = 1 / (count + 2)
    true = (1 - share) * density + share * background
    false = (1 - share) * background + share * density
    total = np.maximum(true + false, 1e-300)
    chances = IsotonicRegression().fit_transform(knots, true / total, sample_weight=total + 1e-9)
    chances = np.clip(chances, share, 1 - share)
    return np.asarray(np.log(chances) - np.log1p(-chances))


def _read(values: Floats, relations: Ints, knots: Floats, pooled: Floats, own: dict[int, Floats]) -> Floats:
    """Return the log-ratio of values, by their relations' curves or else by that of all."""
    logits = np.empty(len(values))
    for relation in np.unique(relations).tolist():
        mine = relations == relation
        logits[mine] = np.interp(values[mine], knots, own.get(relation, pooled))
    return logits


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
