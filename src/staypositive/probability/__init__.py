"""Calibration: from scores to log-odds one can trust, with labelled validation triples or with facts alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from staypositive.errors import InputError, RunError, SettingError
from staypositive.probability.conformal import Conformal, Strangeness, within
from staypositive.probability.maps import Beta, Calibrator, Isotonic, Platt, Temperature
from staypositive.probability.null_distribution import Features, NullDistribution
from staypositive.probability.posterior import FeatureCalibrator, NullLogistic, Posterior

CALIBRATORS: dict[str, type[Calibrator]] = {
    kind.name: kind for kind in (Platt, Isotonic, Temperature, Beta, NullLogistic, Posterior)
}
"""Every calibrator by its name."""


def find_calibrator(name: str) -> type[Calibrator]:
    """Return a calibrator's class by its name."""
    if name not in CALIBRATORS:
        raise SettingError(f"expected a calibrator among {', '.join(CALIBRATORS)}, got {name!r}")
    return CALIBRATORS[name]


def fit_calibrator(
    name: str,
    logits: ArrayLike,
    labels: ArrayLike,
    features: Features | None = None,
    rivals: Features | None = None,
) -> Calibrator:
    """Fit a calibrator by name to logits and ±1 labels, or to the triples' background.

    Both kinds of label must be there, but for `posterior`, which looks at facts alone, and at their rivals where
    ranges are small.
    """
    kind = find_calibrator(name)
    if issubclass(kind, FeatureCalibrator) and features is None:
        raise InputError(f"{name} needs the background of the triples")
    values, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels) > 0
    if kind.needs_labels and (not truth.any() or truth.all()):
        raise InputError(
            "calibration needs validation triples labelled true and false; this graph has one kind alone"
        )
    if not np.isfinite(values).all():
        raise InputError("some logits are not finite; a model that has diverged cannot be calibrated")
    if issubclass(kind, FeatureCalibrator):
        assert features is not None
        return kind.fit_features(features, truth, rivals)
    return kind.fit(values, truth)


def calibrator_from_dict(data: dict[str, Any]) -> Calibrator:
    """Rebuild a calibrator from its JSON form."""
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
    "CALIBRATORS",
    "Beta",
    "Calibrator",
    "Conformal",
    "FeatureCalibrator",
    "Features",
    "Isotonic",
    "NullDistribution",
    "NullLogistic",
    "Platt",
    "Posterior",
    "Strangeness",
    "Temperature",
    "calibrator_from_dict",
    "find_calibrator",
    "fit_calibrator",
    "within",
]
