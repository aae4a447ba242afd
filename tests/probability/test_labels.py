"""What labels add to the posterior: safe from the first on, and the least of its loss."""

from __future__ import annotations

import numpy as np
import pytest

from staypositive.errors import InputError
from staypositive.probability import FEATURES, Labelled, calibrator_from_dict
from staypositive.probability.labels import FEATURE, OFFSET, OWN, SLOPE

N = 4000


@pytest.fixture(scope="module")
def labelled() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log-odds that are too steep and off by a constant, features of which one matters, relations, and the truth."""
    draw = np.random.default_rng(0)
    log_odds, features = draw.normal(-12, 4, N), draw.normal(size=(N, len(FEATURES)))
    true = 0.6 * (log_odds + 12) + features[:, 3]
    return log_odds, features, draw.integers(5, size=N), draw.random(N) < 1 / (1 + np.exp(-true))


def nll(log_odds: np.ndarray, truth: np.ndarray) -> float:
    return float(np.logaddexp(0, np.where(truth, -log_odds, log_odds)).mean())


def fitted_to(labelled: tuple[np.ndarray, ...], size: int, seed: int = 0) -> float:
    """Return the NLL of the second half by labels from the first."""
    log_odds, features, relations, truth = labelled
    chosen, rest = np.random.default_rng(seed).permutation(N // 2)[:size], np.arange(N // 2, N)
    fitted = Labelled.fit_evidence(log_odds[chosen], features[chosen], relations[chosen], truth[chosen])
    return nll(fitted.apply_evidence(log_odds[rest], features[rest], relations[rest]), truth[rest])


def test_more_labels_are_better_and_few_are_safe(labelled: tuple[np.ndarray, ...]) -> None:
    few, some, many = (np.mean([fitted_to(labelled, size, seed) for seed in range(5)]) for size in (5, 100, 2000))
    assert few < 0.69  # a coin has .693
    assert some < few - 0.02
    assert many < some - 0.01


def test_one_label_is_enough_to_begin_with(labelled: tuple[np.ndarray, ...]) -> None:
    log_odds, features, relations, truth = (part[:1] for part in labelled)
    fitted = Labelled.fit_evidence(log_odds, features, relations, truth)
    assert np.isfinite(fitted.apply_evidence(*labelled[:3])).all()
    with pytest.raises(InputError, match="no labelled triple"):
        Labelled.fit_evidence(log_odds[:0], features[:0], relations[:0], truth[:0])


def test_the_weights_have_the_least_penalised_loss(labelled: tuple[np.ndarray, ...]) -> None:
    log_odds, features, relations, truth = (part[:300] for part in labelled)
    fitted = Labelled.fit_evidence(log_odds, features, relations, truth)
    design = fitted._design(log_odds, features, relations)
    penalty = np.full(design.shape[1], FEATURE)
    penalty[:2], penalty[-len(fitted.relations) :] = (OFFSET, SLOPE), OWN
    start = np.eye(len(penalty))[1] / 2

    def loss(weights: np.ndarray) -> float:
        return len(truth) * nll(design @ weights, truth) + 0.5 * float((penalty * (weights - start) ** 2).sum())

    weights = np.array(fitted.weights)
    for place in (0, 1, 5, len(weights) - 1):
        step = 1e-4 * np.eye(len(weights))[place]
        assert (loss(weights + step) - loss(weights - step)) / 2e-4 == pytest.approx(0, abs=1e-4)


def test_judged_triples_start_from_the_posterior(labelled: tuple[np.ndarray, ...]) -> None:
    """A few judgements that agree with what was stated leave log-odds nearly as they were, everywhere."""
    log_odds, features, relations, _ = labelled
    stated = np.array([2.0, 3.0, -2.0, -3.0])
    truth = stated > 0
    fitted = Labelled.fit_evidence(stated, np.zeros((4, len(FEATURES))), relations[:4], truth, as_unknown=True)
    moved = fitted.apply_evidence(log_odds, np.zeros_like(features), np.full(N, 99))
    assert np.abs(moved - log_odds).max() < 1.0
    wrong = Labelled.fit_evidence(
        np.full(30, 2.0), np.zeros((30, len(FEATURES))), np.zeros(30, dtype=np.int64), np.zeros(30, dtype=bool),
        as_unknown=True,
    )  # fmt: skip
    assert wrong.apply_evidence(np.array([2.0]), np.zeros((1, len(FEATURES))), np.zeros(1, dtype=np.int64))[0] < 0.5


def test_it_is_read_as_it_was_written(labelled: tuple[np.ndarray, ...]) -> None:
    fitted = Labelled.fit_evidence(*(part[:100] for part in labelled))
    again = calibrator_from_dict(fitted.as_dict())
    assert isinstance(again, Labelled)
    np.testing.assert_array_equal(again.apply_evidence(*labelled[:3]), fitted.apply_evidence(*labelled[:3]))
