"""Classification metrics against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from staypositive.errors import InputError
from staypositive.evaluation import (
    best_threshold,
    brier_score,
    classification_metrics,
    expected_calibration_error,
    negative_log_likelihood,
    relation_thresholds,
    sigmoid,
    threshold_accuracy,
)

DRAW = np.random.default_rng(0)
LOGITS = DRAW.normal(0.3, 2, 500).round(1)
LABELS = np.where(DRAW.random(500) < sigmoid(LOGITS - 0.5), 1, -1)


def test_metrics_equal_scikit_learn() -> None:
    ours, truth, p = classification_metrics(LOGITS, LABELS), LABELS > 0, sigmoid(LOGITS)
    assert ours["nll"] == pytest.approx(sk.log_loss(truth, p))
    assert ours["brier"] == pytest.approx(sk.brier_score_loss(truth, p))
    assert ours["auc"] == pytest.approx(sk.roc_auc_score(truth, p))
    assert ours["average_precision"] == pytest.approx(sk.average_precision_score(truth, p))
    assert ours["accuracy"] == pytest.approx(sk.accuracy_score(truth, p > 0.5))


def test_nll_survives_where_probabilities_round() -> None:
    assert negative_log_likelihood([800.0, -800.0], [-1, 1]) == 800
    assert brier_score([800.0], [1]) == 0


def test_calibration_error_by_hand() -> None:
    logits = np.log([0.1 / 0.9, 0.12 / 0.88, 0.9 / 0.1])
    # bins of width 1/15: 0.1 and 0.12 share the second, 0.9 is alone
    expected = (abs(0.1 + 0.12 - 1) + abs(0.9 - 1)) / 3
    assert expected_calibration_error(logits, [1, -1, 1]) == pytest.approx(expected)
    assert expected_calibration_error([1000.0], [1]) == 0  # probability 1 belongs to the last bin


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([-1, 1])), min_size=1, max_size=20))
def test_best_threshold_is_best(rows: list[tuple[int, int]]) -> None:
    logits, labels = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    cut = best_threshold(logits, labels)
    right = ((logits > cut) == (labels > 0)).sum()
    assert right == max(((logits > other) == (labels > 0)).sum() for other in np.arange(-4.5, 5))


def test_thresholds_by_relation() -> None:
    logits, labels, relations = [1.0, 2.0, 5.0, 6.0, 0.0], [-1, 1, -1, 1, 1], [0, 0, 1, 1, 2]
    cuts = relation_thresholds(logits, labels, relations)
    assert cuts == {0: 1.5, 1: 5.5}  # relation 2 has facts alone
    assert threshold_accuracy(logits, labels, relations, cuts, default=-1.0) == 1.0
    assert threshold_accuracy(logits, labels, relations, {}, default=1.5) == 0.6


def test_bad_input() -> None:
    with pytest.raises(InputError, match="only one kind"):
        classification_metrics([1.0, 2.0], [1, 1])
    with pytest.raises(InputError, match="not finite"):
        classification_metrics([np.nan, 2.0], [1, -1])
    with pytest.raises(InputError, match=r"\+1 or -1"):
        negative_log_likelihood([1.0], [0])
