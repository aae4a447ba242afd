"""Calibrated log-odds and prediction sets, from labelled validation triples or from facts alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from staypositive.errors import InputError, RunError, SettingError
from staypositive.probability.calibrators import Beta, Calibrator, FeatureCalibrator, Isotonic, Platt, Temperature
from staypositive.probability.counting import likely_pairs
from staypositive.probability.evidence import FEATURES, Evidence
from staypositive.probability.labels import Labelled
from staypositive.probability.null_distribution import SIDES, Features, NullDistribution
from staypositive.probability.null_logistic import NullLogistic
from staypositive.probability.posterior import Posterior, kernel_density, null_density
from staypositive.probability.prediction_sets import Conformal, Nonconformity, within
from staypositive.probability.triple_posterior import ENOUGH_HELD_OUT, TriplePosterior, discovery_sample

CALIBRATORS: dict[str, type[Calibrator]] = {
    kind.name: kind for kind in (Platt, Isotonic, Temperature, Beta, NullLogistic, Posterior, Labelled)
}


def find_calibrator(name: str) -> type[Calibrator]:
    if name not in CALIBRATORS:
        raise SettingError(f"expected a calibrator among {', '.join(CALIBRATORS)}, got {name!r}")
    return CALIBRATORS[name]


def fit_calibrator(
    name: str,
    logits: ArrayLike,
    labels: ArrayLike,
    features: Features | None = None,
    candidates: Features | None = None,
) -> Calibrator:
    """Fit a calibrator by name to logits and ±1 labels, or to the triples' features of their null distributions.

    Both kinds of label are needed, except by `posterior`, which looks at facts alone, and at in-range `candidates`
    where ranges are small.
    """
    kind = find_calibrator(name)
    if issubclass(kind, FeatureCalibrator) and features is None:
        raise InputError(f"{name} needs the null distributions of the triples")
    values, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels) > 0
    if kind.needs_labels and (not truth.any() or truth.all()):
        raise InputError("calibration needs validation triples labelled true and false; this graph has only one kind")
    if not np.isfinite(values).all():
        raise InputError("some logits are not finite; a model that has diverged cannot be calibrated")
    if issubclass(kind, FeatureCalibrator):
        assert features is not None
        return kind.fit_features(features, truth, candidates)
    return kind.fit(values, truth)


def calibrator_from_dict(data: dict[str, Any]) -> Calibrator:
    settings: dict[str, Any] = {key: _frozen(value) for key, value in data.items()}
    name = settings.pop("name", "")
    kind = CALIBRATORS.get("null-logistic" if name == "background-logistic" else name)  # its name in older runs
    try:
        if kind is None:
            raise TypeError("its name is unknown")
        return kind(**settings)
    except TypeError as error:
        raise RunError(f"the stored calibrator cannot be read: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


__all__ = [
    "CALIBRATORS", "ENOUGH_HELD_OUT", "FEATURES", "SIDES", "Beta", "Calibrator", "Conformal", "Evidence",
    "FeatureCalibrator", "Features", "Isotonic", "Labelled", "Nonconformity", "NullDistribution", "NullLogistic",
    "Platt", "Posterior", "Temperature", "TriplePosterior", "calibrator_from_dict", "discovery_sample",
    "find_calibrator", "fit_calibrator", "kernel_density", "likely_pairs", "null_density", "within",
]  # fmt: skip
