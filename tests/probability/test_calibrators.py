"""Calibrators: what they are fitted to, what they promise, how they are stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from staypositive.errors import InputError, RunError, SettingError
from staypositive.evaluation import classification_metrics, negative_log_likelihood, sigmoid
from staypositive.probability import (
    CALIBRATORS,
    FeatureCalibrator,
    Labelled,
    Platt,
    Temperature,
    calibrator_from_dict,
    fit_calibrator,
)

DRAW = np.random.default_rng(0)
LOGITS = DRAW.normal(2, 3, 4000)
LABELS = np.where(DRAW.random(4000) < sigmoid(0.4 * LOGITS - 1), 1, -1)


@pytest.fixture(
    params=sorted(n for n, kind in CALIBRATORS.items() if not issubclass(kind, FeatureCalibrator | Labelled))
)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_calibration_helps_and_keeps_the_order(method: str) -> None:
    calibrator = fit_calibrator(method, LOGITS, LABELS)
    after = calibrator.apply(LOGITS)
    assert negative_log_likelihood(after, LABELS) < negative_log_likelihood(LOGITS, LABELS)
    assert (np.diff(after[np.argsort(LOGITS)]) >= -1e-9).all()
    assert np.isfinite(calibrator.apply([-1e6, 1e6])).all()
    assert calibrator.base_prior == pytest.approx((LABELS > 0).mean())


def test_storing_and_reading_back(method: str) -> None:
    calibrator = fit_calibrator(method, LOGITS, LABELS)
    twin = calibrator_from_dict(json.loads(json.dumps(calibrator.as_dict())))
    assert twin == calibrator
    np.testing.assert_array_equal(twin.apply(LOGITS), calibrator.apply(LOGITS))


def test_platt_recovers_a_planted_line() -> None:
    platt = fit_calibrator("platt", LOGITS, LABELS)
    assert isinstance(platt, Platt)
    assert platt.slope == pytest.approx(0.4, abs=0.05)
    assert platt.offset == pytest.approx(-1, abs=0.1)


def test_platt_minimises_the_smoothed_loss() -> None:
    platt = fit_calibrator("platt", LOGITS, LABELS)
    up, down = (LABELS > 0).sum(), (LABELS < 0).sum()
    targets = np.where(LABELS > 0, (up + 1) / (up + 2), 1 / (down + 2))
    residual = sigmoid(platt.apply(LOGITS)) - targets
    assert abs(residual.mean()) < 1e-6  # both derivatives vanish
    assert abs((residual * LOGITS).mean()) < 1e-6


def test_platt_stays_finite_on_separable_and_constant_data() -> None:
    split = fit_calibrator("platt", [-1.0, -2.0, 1.0, 2.0], [-1, -1, 1, 1])
    assert split.apply([2.0])[0] < 10  # smoothed targets: (2+1)/(2+2)
    flat = fit_calibrator("platt", [3.0, 3.0, 3.0, 3.0], [-1, 1, 1, 1])
    assert sigmoid(flat.apply([3.0]))[0] == pytest.approx((0.8 * 3 + 1 / 3) / 4, abs=1e-6)


def test_temperature_of_too_sharp_logits() -> None:
    logits = DRAW.normal(0, 2, 5000)
    labels = np.where(DRAW.random(5000) < sigmoid(logits), 1, -1)
    found = fit_calibrator("temperature", 3 * logits, labels)
    assert isinstance(found, Temperature)
    assert found.temperature == pytest.approx(3, rel=0.1)


def test_isotonic_equals_scikit_learn_within_the_margin() -> None:
    ours = sigmoid(fit_calibrator("isotonic", LOGITS, LABELS).apply(LOGITS))
    theirs = IsotonicRegression(out_of_bounds="clip").fit(LOGITS, LABELS > 0).predict(LOGITS)
    margin = 1 / (len(LOGITS) + 2)
    np.testing.assert_allclose(ours, theirs.clip(margin, 1 - margin), atol=1e-9)
    assert classification_metrics(fit_calibrator("isotonic", LOGITS, LABELS).apply(LOGITS), LABELS)["ece"] < 0.01


def test_bad_requests() -> None:
    with pytest.raises(SettingError, match="platt, isotonic, temperature"):
        fit_calibrator("histogram", LOGITS, LABELS)
    with pytest.raises(InputError, match="true and false"):
        fit_calibrator("platt", [1.0, 2.0], [1, 1])
    with pytest.raises(InputError, match="not finite"):
        fit_calibrator("platt", [np.inf, 2.0], [1, -1])
    with pytest.raises(RunError, match="cannot be read"):
        calibrator_from_dict({"name": "magic"})
    with pytest.raises(RunError, match="cannot be read"):
        calibrator_from_dict({"name": "platt", "hope": 1})


def test_platt_never_turns_the_order_round(caplog: pytest.LogCaptureFixture) -> None:
    platt = fit_calibrator("platt", -LOGITS, LABELS)
    assert isinstance(platt, Platt)
    assert platt.slope == 0
    assert sigmoid(platt.apply([0.0]))[0] == pytest.approx((LABELS > 0).mean(), abs=1e-3)
    assert "false triples above true ones" in caplog.text
