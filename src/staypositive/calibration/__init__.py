"""Calibration: maps from a model's log-odds to log-odds one can trust, fitted on labelled validation triples.

Every calibrator takes and gives logits, so that a change of prior is an addition whatever the calibrator.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.errors import InputError, RunError, SettingError

Floats = NDArray[np.float64]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Calibrator(ABC):
    """A fitted calibrator. `base_prior` is the share of true triples it was fitted on."""

    name: ClassVar[str]
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


CALIBRATORS: dict[str, type[Calibrator]] = {kind.name: kind for kind in (Platt, Isotonic, Temperature)}
"""Every calibrator by its name."""


def fit_calibrator(name: str, logits: ArrayLike, labels: ArrayLike) -> Calibrator:
    """Fit a calibrator by name to logits and ±1 labels; both kinds of label must be there."""
    if name not in CALIBRATORS:
        raise SettingError(f"expected a calibrator among {', '.join(CALIBRATORS)}, got {name!r}")
    values, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels) > 0
    if not truth.any() or truth.all():
        raise InputError(
            "calibration needs validation triples labelled true and false; this graph has one kind alone"
        )
    if not np.isfinite(values).all():
        raise InputError("some logits are not finite; a model that has diverged cannot be calibrated")
    return CALIBRATORS[name].fit(values, truth)


def calibrator_from_dict(data: dict[str, Any]) -> Calibrator:
    """Rebuild a calibrator from its JSON form."""
    settings: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in data.items()}
    kind = CALIBRATORS.get(settings.pop("name", ""))
    try:
        if kind is None:
            raise TypeError("its name is unknown")
        return kind(**settings)
    except TypeError as error:
        raise RunError(f"the stored calibrator cannot be read: {error}") from None


__all__ = ["CALIBRATORS", "Calibrator", "Isotonic", "Platt", "Temperature", "calibrator_from_dict", "fit_calibrator"]
