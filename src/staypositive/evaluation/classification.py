"""How well log-odds separate true triples from false ones, and how far their probabilities can be trusted.

All functions take logits (log-odds, any real number) and labels (+1 or −1), never probabilities, so that nothing is
guessed from a value's range and nothing is lost where a probability rounds to 0 or 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staypositive.errors import InputError

Floats = NDArray[np.float64]


def sigmoid(logits: ArrayLike) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(np.asarray(logits, dtype=np.float64)))


def negative_log_likelihood(logits: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean of softplus(−label · logit); lower is better, a coin has ln 2."""
    return float(np.logaddexp(0, -_signs(labels) * np.asarray(logits, dtype=np.float64)).mean())


def brier_score(logits: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean squared distance of probability and truth; lower is better, a coin has 0.25."""
    return float(np.square(sigmoid(logits) - (_signs(labels) > 0)).mean())


def expected_calibration_error(logits: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """Return the mean gap of stated probability and observed frequency over equal-width bins; lower is better."""
    stated, observed, counts = reliability_bins(logits, labels, bins)
    return float(np.abs(stated - observed).sum() / counts.sum())


def reliability_bins(logits: ArrayLike, labels: ArrayLike, bins: int = 15) -> tuple[Floats, Floats, Floats]:
    """Return, for equal-width bins of probability: the sum of probabilities, true triples, and all triples."""
    probabilities, truth = sigmoid(logits), _signs(labels) > 0
    bin_of = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    weights = (probabilities, truth, np.ones(len(truth)))
    stated, observed, counts = (np.bincount(bin_of, each, minlength=bins).astype(np.float64) for each in weights)
    return stated, observed, counts


def classification_metrics(logits: ArrayLike, labels: ArrayLike) -> dict[str, float]:
    """Return nll, brier, auc, average_precision, ece and accuracy (at probability ½)."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    values, signs = np.asarray(logits, dtype=np.float64), _signs(labels)
    if not np.isfinite(values).all():
        raise InputError("some logits are not finite; a model that has diverged cannot be measured")
    if len(np.unique(signs)) != 2:
        raise InputError("classification needs both true and false triples; this split has only one kind")
    return {
        "nll": negative_log_likelihood(values, signs),
        "brier": brier_score(values, signs),
        "auc": float(roc_auc_score(signs > 0, values)),
        "average_precision": float(average_precision_score(signs > 0, values)),
        "ece": expected_calibration_error(values, signs),
        "accuracy": float(((values > 0) == (signs > 0)).mean()),
    }


def best_threshold(logits: ArrayLike, labels: ArrayLike) -> float:
    """Return the threshold of highest accuracy; a triple is called true when its logit exceeds it.

    Among equals the lowest is taken. Thresholds lie halfway between neighbouring logits, or beyond the ends.
    """
    values, signs = np.asarray(logits, dtype=np.float64), _signs(labels)
    levels, level = np.unique(values, return_inverse=True)
    # gained[k]: how many more are correct when the k lowest levels are called false
    gained = np.concatenate([[0], np.cumsum(np.bincount(level, -signs))])
    ends = np.concatenate([[levels[0] - 1], (levels[1:] + levels[:-1]) / 2, [levels[-1] + 1]])
    return float(ends[np.argmax(gained)])


def threshold_accuracy(
    logits: ArrayLike, labels: ArrayLike, relations: ArrayLike, thresholds: dict[int, float], default: float
) -> float:
    """Return the accuracy with a threshold for each relation; relations without one use the default."""
    limits = np.array([thresholds.get(int(relation), default) for relation in np.asarray(relations)])
    return float(((np.asarray(logits, dtype=np.float64) > limits) == (_signs(labels) > 0)).mean())


def relation_thresholds(logits: ArrayLike, labels: ArrayLike, relations: ArrayLike) -> dict[int, float]:
    """Return the best threshold of each relation that has both true and false triples."""
    values, signs, ids = np.asarray(logits, dtype=np.float64), _signs(labels), np.asarray(relations)
    both = np.intersect1d(ids[signs > 0], ids[signs < 0]).tolist()
    return {relation: best_threshold(values[ids == relation], signs[ids == relation]) for relation in both}


Labelled = tuple[ArrayLike, ArrayLike, ArrayLike]  # logits, labels and relations of some triples


def threshold_metrics(judged: Labelled, reference: Labelled) -> dict[str, float]:
    """Return accuracies with one threshold and with one for each relation, chosen on the reference triples."""
    logits, labels, relations = judged
    threshold, each = best_threshold(*reference[:2]), relation_thresholds(*reference)
    return {
        "accuracy_threshold": threshold_accuracy(logits, labels, relations, {}, threshold),
        "accuracy_relation_thresholds": threshold_accuracy(logits, labels, relations, each, threshold),
    }


def _signs(labels: ArrayLike) -> NDArray[np.int64]:
    signs = np.asarray(labels, dtype=np.int64)
    if len(signs) == 0 or not np.isin(signs, (-1, 1)).all():
        raise InputError("labels must be +1 or -1, at least one of them")
    return signs
