"""Maps from a model's log-odds to log-odds one can trust, fitted on labelled validation triples.

Every calibrator gives logits, so that a change of prior is an addition whatever the calibrator.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Calibrator(ABC):
    """A fitted calibrator. `base_prior` is the share of true triples it was fitted on."""

    name: ClassVar[str]
    needs_labels: ClassVar[bool] = True
    """Whether it is fitted to triples labelled true and false, rather than to facts."""
    base_prior: float

    @classmethod
    @abstractmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Calibrator:
        """Fit to validation triples."""

    @abstractmethod
    def apply(self, logits: ArrayLike) -> Floats:
        """Return calibrated logits."""

    def as_dict(self) -> dict[str, Any]:
        """Return the calibrator for a JSON file."""
        return {"name": self.name} | dataclasses.asdict(self)


@dataclass(frozen=True)
class Platt(Calibrator):
    """slope · logit + offset, with Platt's smoothed targets (Platt 1999)."""

    name: ClassVar[str] = "platt"
    slope: float
    offset: float

    @classmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Platt:
        """Minimise the cross-entropy against targets (N₊+1)/(N₊+2) and 1/(N₋+2), which keeps the slope finite."""
        from scipy.optimize import minimize

        positives, negatives = int(truth.sum()), int((~truth).sum())
        targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        centre, spread = float(logits.mean()), float(logits.std()) or 1.0
        scaled = (logits - centre) / spread  # so that both parameters are of order 1

        def loss(parameters: Floats) -> tuple[float, Floats]:
            z = parameters[0] * scaled + parameters[1]
            miss = 1 / (1 + np.exp(-np.clip(z, -700, 700))) - targets
            value = (np.logaddexp(0, z) - targets * z).mean()
            return float(value), np.array([(miss * scaled).mean(), miss.mean()])

        start = np.array([1.0, 0.0])
        slope, offset = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
        if slope < 0:
            log.warning("validation scores put false triples above true ones; all get one probability")
            mean = targets.mean()
            slope, offset = np.float64(0), np.log(mean) - np.log1p(-mean)
        return cls(float(truth.mean()), float(slope / spread), float(offset - slope * centre / spread))

    def apply(self, logits: ArrayLike) -> Floats:
        """Return slope · logit + offset."""
        return self.slope * np.asarray(logits, dtype=np.float64) + self.offset


@dataclass(frozen=True)
class Temperature(Calibrator):
    """logit / temperature: sharper or flatter, the side of ½ unchanged (Guo et al. 2017)."""

    name: ClassVar[str] = "temperature"
    temperature: float

    @classmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Temperature:
        """Minimise the negative log-likelihood over temperatures from 1e-3 to 1e3."""
        from scipy.optimize import minimize_scalar

        signed = np.where(truth, -logits, logits)
        limits = (np.log(1e-3), np.log(1e3))
        found = minimize_scalar(
            lambda x: np.logaddexp(0, signed * np.exp(-x)).mean(), bounds=limits, method="bounded"
        )
        return cls(float(truth.mean()), float(np.exp(found.x)))

    def apply(self, logits: ArrayLike) -> Floats:
        """Return logit / temperature."""
        return np.asarray(logits, dtype=np.float64) / self.temperature


@dataclass(frozen=True)
class Beta(Calibrator):
    """a·ln p − b·ln(1−p) + c with a, b ≥ 0 (Kull et al. 2017): Platt's line, bent apart on either side of ½."""

    name: ClassVar[str] = "beta"
    below: float
    above: float
    offset: float

    @classmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Beta:
        """Minimise the negative log-likelihood, from the identity on."""
        from scipy.optimize import minimize

        features = _beta_features(logits)

        def loss(parameters: Floats) -> tuple[float, Floats]:
            z = features @ parameters
            miss = 1 / (1 + np.exp(-np.clip(z, -700, 700))) - truth
            return float((np.logaddexp(0, z) - truth * z).mean()), features.T @ miss / len(z)

        limits = [(0, None), (0, None), (None, None)]
        found = minimize(loss, np.array([1.0, 1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=limits).x
        return cls(float(truth.mean()), *map(float, found))

    def apply(self, logits: ArrayLike) -> Floats:
        """Return the bent line."""
        parameters = np.array([self.below, self.above, self.offset])
        return np.asarray(_beta_features(np.asarray(logits, dtype=np.float64)) @ parameters)


def _beta_features(logits: Floats) -> Floats:
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), np.ones_like(logits)], axis=-1)


@dataclass(frozen=True)
class Isotonic(Calibrator):
    """A non-decreasing piecewise linear map, through scikit-learn's isotonic regression.

    Probabilities are kept within [1/(n+2), 1 − 1/(n+2)], n the number of validation triples: nothing is certain.
    """

    name: ClassVar[str] = "isotonic"
    knots: tuple[float, ...]
    probabilities: tuple[float, ...]

    @classmethod
    def fit(cls, logits: Floats, truth: NDArray[np.bool_]) -> Isotonic:
        """Fit the non-decreasing map of least squares."""
        from sklearn.isotonic import IsotonicRegression

        margin = 1 / (len(logits) + 2)
        regression = IsotonicRegression(y_min=margin, y_max=1 - margin, out_of_bounds="clip")
        regression.fit(logits, truth.astype(np.float64))
        knots, values = regression.X_thresholds_.tolist(), regression.y_thresholds_.tolist()
        return cls(float(truth.mean()), tuple(knots), tuple(values))

    def apply(self, logits: ArrayLike) -> Floats:
        """Return the logit of the interpolated probability."""
        values = np.interp(np.asarray(logits, dtype=np.float64), self.knots, self.probabilities)
        return np.asarray(np.log(values) - np.log1p(-values), dtype=np.float64)
