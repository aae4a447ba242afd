"""What labels add to the triple posterior: few of them shift and bend it a little, many of them fit it anew.

Labelled triples are seldom drawn as unknown ones are: half of them may be true, and false ones were often picked
because they are likely. So log-odds among triples like these are offset + slope · posterior + what features add, all
drawn to a start by ridge penalties, which weigh as much as some labels do. What the labels leave open draws log-odds
to even: they are divided by √(1 + π/8 · variance), the mean of a logistic curve over a normal distribution (MacKay
1992). That makes the first labels safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.errors import InputError
from staypositive.probability.additive import expit
from staypositive.probability.calibrators import Calibrator, Truth
from staypositive.probability.null_distribution import Floats, Ints

BENDS = 4
OFFSET, SLOPE, FEATURE, OWN = 1.0, 100.0, 30.0, 3.0
"""Ridge penalties: of the offset, of the slope, of what each feature adds, and of each relation's offset."""
STEPS = 50
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Labelled(Calibrator):
    """The posterior corrected by labels; `weights` are an offset, a slope, those of features, and of `relations`.

    `covariance` is that of the weights; where it is empty, what labels leave open keeps the posterior as it is.
    """

    name: ClassVar[str] = "labelled"
    centre: float
    low: Numbers
    high: Numbers
    middle: Numbers
    spread: Numbers
    bends: tuple[Numbers, ...]
    relations: tuple[int, ...]
    weights: Numbers
    covariance: tuple[Numbers, ...]

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Labelled:
        raise InputError(f"{cls.name} is fitted to triples with their evidence, not to logits")

    def apply(self, logits: ArrayLike) -> Floats:
        raise InputError(f"{self.name} judges triples by their evidence, not by one number")

    @classmethod
    def fit_evidence(
        cls, log_odds: Floats, features: Floats, relations: Ints, truth: Truth, *, as_unknown: bool = False
    ) -> Labelled:
        """Fit to labelled triples, by their posterior log-odds and their features.

        Triples that were proposed `as unknown` ones and then judged start from the posterior. Others have a share of
        true ones of their own and start from a slope of ½: false ones may have been picked for being likely.
        """
        if not len(truth):
            raise InputError("there is no labelled triple to fit to")
        low, high = np.quantile(features, [0.002, 0.998], axis=0)
        kept = np.clip(features, low, high)
        bends = np.quantile(kept, np.arange(1, BENDS + 1) / (BENDS + 1), axis=0)
        centre, slope = (0.0, 1.0) if as_unknown else (float(log_odds.mean()), 0.5)
        least = 0.5 / len(truth)
        blank = cls(
            min(max(float(truth.mean()), least), 1 - least), centre, _tuple(low), _tuple(high),
            _tuple(kept.mean(0)), _tuple(kept.std(0) + 1e-6), tuple(map(_tuple, bends)),
            tuple(np.unique(relations).tolist()), (), (),
        )  # fmt: skip
        design = blank._design(log_odds, features, relations)
        penalty, start = np.full(design.shape[1], FEATURE), np.zeros(design.shape[1])
        penalty[:2], start[1] = (OFFSET, SLOPE), slope
        penalty[design.shape[1] - len(blank.relations) :] = OWN
        weights, covariance = _fitted(design, truth, penalty, start)
        parts = {name: value for name, value in vars(blank).items() if name not in ("weights", "covariance")}
        kept_covariance = () if as_unknown else tuple(map(_tuple, covariance))
        return cls(**parts, weights=_tuple(weights), covariance=kept_covariance)

    def apply_evidence(self, log_odds: Floats, features: Floats, relations: Ints) -> Floats:
        design = self._design(log_odds, features, relations)
        variance = ((design @ np.array(self.covariance)) * design).sum(1) if self.covariance else 0.0
        return np.asarray(design @ np.array(self.weights) / np.sqrt(1 + np.pi / 8 * variance))

    def _design(self, log_odds: Floats, features: Floats, relations: Ints) -> Floats:
        kept, spread = np.clip(features, self.low, self.high), np.array(self.spread)
        beyond = [np.maximum(0, kept - bend) / spread for bend in np.array(self.bends)]
        of_relation = relations[:, None] == np.array(self.relations, dtype=np.int64)
        ones = np.ones(len(log_odds))
        return np.column_stack([
            ones, log_odds - self.centre, (kept - self.middle) / spread, *beyond, of_relation.astype(np.float64)
        ])  # fmt: skip


def _fitted(design: Floats, truth: NDArray[np.bool_], penalty: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Return the weights of least penalised cross-entropy, by Newton's method with halved steps; their covariance."""

    def loss(weights: Floats) -> float:
        z = design @ weights
        return float(np.logaddexp(0, np.where(truth, -z, z)).sum() + 0.5 * (penalty * (weights - start) ** 2).sum())

    def hessian(weights: Floats) -> Floats:
        p = expit(design @ weights)
        return np.asarray((design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty))

    weights, least = start, loss(start)
    for _ in range(STEPS):
        gradient = design.T @ (truth - expit(design @ weights)) - penalty * (weights - start)
        step = np.linalg.solve(hessian(weights), gradient)
        while (lower := loss(weights + step)) > least and np.abs(step).max() > 1e-12:
            step = step / 2
        gain, weights, least = least - lower, weights + step, lower
        if gain < 1e-9:
            break
    return weights, np.asarray(np.linalg.inv(hessian(weights)), dtype=np.float64)


def _tuple(values: Floats) -> Numbers:
    return tuple(values.tolist())
