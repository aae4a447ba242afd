"""Calibrators: from a model's log-odds to calibrated log-odds, fitted on validation triples.

Every calibrator gives log-odds, so that a change of prior is an addition whatever the calibrator.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.errors import InputError
from staypositive.probability.null_distribution import Features, Floats

Truth = NDArray[np.bool_]  # which validation triples are labelled true
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Calibrator(ABC):
    """A fitted calibrator. `base_prior` is the share of true triples it was fitted on."""

    name: ClassVar[str]
    needs_labels: ClassVar[bool] = True  # fitted to triples labelled true and false, rather than to facts
    base_prior: float

    @classmethod
    @abstractmethod
    def fit(cls, logits: Floats, truth: Truth) -> Calibrator: ...

    @abstractmethod
    def apply(self, logits: ArrayLike) -> Floats:
        """Return calibrated log-odds."""

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name} | dataclasses.asdict(self)


class FeatureCalibrator(Calibrator):
    """A calibrator of triples, by where their scores lie in their queries' null distributions."""

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Calibrator:
        raise InputError(f"{cls.name} is fitted to triples with their null distributions, not to logits")

    def apply(self, logits: ArrayLike) -> Floats:
        raise InputError(f"{self.name} judges triples by their null distributions, not by one number")

    @classmethod
    @abstractmethod
    def fit_features(cls, features: Features, truth: Truth, candidates: Features | None = None) -> FeatureCalibrator:
        """Fit to validation triples; `candidates` are from `NullDistribution.candidates_in_range`."""

    @abstractmethod
    def apply_features(self, features: Features) -> Floats: ...


@dataclass(frozen=True)
class Platt(Calibrator):
    """slope · logit + offset, with Platt's smoothed targets (Platt 1999)."""

    name: ClassVar[str] = "platt"
    slope: float
    offset: float

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Platt:
        """Minimise the cross-entropy against targets (N₊+1)/(N₊+2) and 1/(N₋+2), which keeps the slope finite."""
        from scipy.optimize import minimize

        positives, negatives = int(truth.sum()), int((~truth).sum())
        targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        centre, scale = float(logits.mean()), float(logits.std()) or 1.0
        design = np.stack([(logits - centre) / scale, np.ones_like(logits)], axis=-1)  # both parameters of order 1
        loss, start = _cross_entropy(design, targets), np.array([1.0, 0.0])
        slope, offset = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
        if slope < 0:
            log.warning("validation scores put false triples above true ones; all get one probability")
            mean = targets.mean()
            slope, offset = np.float64(0), np.log(mean) - np.log1p(-mean)
        return cls(float(truth.mean()), float(slope / scale), float(offset - slope * centre / scale))

    def apply(self, logits: ArrayLike) -> Floats:
        return self.slope * np.asarray(logits, dtype=np.float64) + self.offset


@dataclass(frozen=True)
class Temperature(Calibrator):
    """logit / temperature: sharper or flatter, the side of ½ unchanged (Guo et al. 2017)."""

    name: ClassVar[str] = "temperature"
    temperature: float

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Temperature:
        from scipy.optimize import minimize_scalar

        signed, limits = np.where(truth, -logits, logits), (np.log(1e-3), np.log(1e3))
        found = minimize_scalar(lambda x: np.logaddexp(0, signed * np.exp(-x)).mean(), bounds=limits)
        return cls(float(truth.mean()), float(np.exp(found.x)))

    def apply(self, logits: ArrayLike) -> Floats:
        return np.asarray(logits, dtype=np.float64) / self.temperature


@dataclass(frozen=True)
class Beta(Calibrator):
    """a·ln p − b·ln(1−p) + c with a, b ≥ 0 (Kull et al. 2017): Platt's line, bent apart on either side of ½."""

    name: ClassVar[str] = "beta"
    below: float
    above: float
    offset: float

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Beta:
        from scipy.optimize import minimize

        loss, limits = _cross_entropy(_beta_design(logits), truth), [(0, None), (0, None), (None, None)]
        found = minimize(loss, np.array([1.0, 1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=limits).x
        return cls(float(truth.mean()), *map(float, found))

    def apply(self, logits: ArrayLike) -> Floats:
        parameters = np.array([self.below, self.above, self.offset])
        return np.asarray(_beta_design(np.asarray(logits, dtype=np.float64)) @ parameters)


def _beta_design(logits: Floats) -> Floats:
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), np.ones_like(logits)], axis=-1)


def _cross_entropy(design: Floats, targets: NDArray[Any]) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the mean cross-entropy of log-odds `design @ parameters` against targets, with its gradient."""

    def loss(parameters: Floats) -> tuple[float, Floats]:
        z = design @ parameters
        miss = 1 / (1 + np.exp(-np.clip(z, -700, 700))) - targets
        return float((np.logaddexp(0, z) - targets * z).mean()), design.T @ miss / len(z)

    return loss


@dataclass(frozen=True)
class Isotonic(Calibrator):
    """A non-decreasing piecewise linear map, through scikit-learn's isotonic regression.

    Probabilities are kept within [1/(n+2), 1 − 1/(n+2)], n the number of validation triples: nothing is certain.
    """

    name: ClassVar[str] = "isotonic"
    knots: tuple[float, ...]
    probabilities: tuple[float, ...]

    @classmethod
    def fit(cls, logits: Floats, truth: Truth) -> Isotonic:
        from sklearn.isotonic import IsotonicRegression

        margin = 1 / (len(logits) + 2)
        regression = IsotonicRegression(y_min=margin, y_max=1 - margin, out_of_bounds="clip")
        regression.fit(logits, truth.astype(np.float64))
        knots, values = regression.X_thresholds_.tolist(), regression.y_thresholds_.tolist()
        return cls(float(truth.mean()), tuple(knots), tuple(values))

    def apply(self, logits: ArrayLike) -> Floats:
        values = np.interp(np.asarray(logits, dtype=np.float64), self.knots, self.probabilities)
        return np.asarray(np.log(values) - np.log1p(-values), dtype=np.float64)
