"""The additive model: its loss by definition, and fitted slopes at the minimum that finite differences see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from staypositive.probability import additive
from staypositive.probability.additive import Additive, Basis, Sample, fit_slopes

RHO = 0.7


def drawn(n: int = 400, seed: int = 0) -> Sample:
    """Held-out facts with higher features than the unknown pairs, which weigh more than one each."""
    draw = np.random.default_rng(seed)
    is_fact = np.arange(n) < n // 4
    features = draw.normal(size=(n, 3)) + is_fact[:, None] * np.array([2.0, 0.5, 0.0])
    weights = np.where(is_fact, 1.0, draw.uniform(1, 8, n))
    return Sample(features, draw.integers(0, 3, n), is_fact, weights)


def loss_of(log_odds: np.ndarray, sample: Sample, rho: float) -> float:
    """−Σ weight · ln q for facts and ln (1 − q) for unknown pairs, with q = p / (ρ + p)."""
    total = 0.0
    for g, fact, weight in zip(log_odds, sample.is_fact, sample.weights, strict=True):
        p = 1 / (1 + np.exp(-g))
        q = p / (rho + p)
        total -= weight * np.log(q if fact else 1 - q)
    return total


def design_of(sample: Sample) -> np.ndarray:
    return np.column_stack([np.ones(len(sample.features)), sample.features])


def test_the_loss_is_that_of_held_out_facts_against_unknown_pairs() -> None:
    sample, log_odds = drawn(), np.random.default_rng(1).normal(size=400) * 4
    assert additive._loss(log_odds, sample, RHO) == pytest.approx(loss_of(log_odds, sample, RHO), rel=1e-12)


def gradient(objective: Callable[[np.ndarray], float], slopes: np.ndarray, step: float = 1e-5) -> np.ndarray:
    units = np.eye(len(slopes)) * step
    return np.array([(objective(slopes + unit) - objective(slopes - unit)) / (2 * step) for unit in units])


@pytest.mark.parametrize("rho", [0.3, 1.0, 4.0])
def test_fitted_slopes_are_where_the_loss_is_least(rho: float) -> None:
    sample = drawn()
    design, shift, penalty = design_of(sample), np.linspace(-1, 1, 400), np.array([0.0, 5.0, 5.0, 5.0])

    def objective(slopes: np.ndarray) -> float:
        return loss_of(shift + design @ slopes, sample, rho) + 0.5 * float((penalty * slopes**2).sum())

    found = fit_slopes(design, sample, rho, penalty, np.zeros(4), shift, 60)
    least, base = objective(found), objective(np.zeros(4))
    assert least < base
    for direction in np.random.default_rng(2).normal(size=(20, 4)):
        assert least <= objective(found + 0.3 * direction) + 0.02  # a gain of less than 0.01 ends the search
    other = fit_slopes(design, sample, rho, penalty, np.array([-3.0, 1.0, 0.0, 1.0]), shift, 60)
    assert objective(other) == pytest.approx(least, rel=0.005)
    assert np.abs(gradient(objective, found)).max() < 0.02 * np.abs(gradient(objective, np.zeros(4))).max()


@pytest.mark.parametrize("at", [np.zeros(4), np.array([-1.0, 0.4, 0.2, -0.1])])
def test_one_step_is_fishers(at: np.ndarray) -> None:
    """The gradient by finite differences, and the curvature that is expected where q is the chance of a fact."""
    sample = drawn()
    design, shift, penalty = design_of(sample), np.full(400, -1.0), np.array([0.0, 5.0, 5.0, 5.0])

    def objective(slopes: np.ndarray) -> float:
        return loss_of(shift + design @ slopes, sample, RHO) + 0.5 * float((penalty * slopes**2).sum())

    def expected_gradient(slopes: np.ndarray) -> np.ndarray:
        """The gradient if each pair were a fact as often as its q at `at` says."""
        p = expit(shift + design @ at)
        q = p / (RHO + p)

        def expected(moved: np.ndarray) -> float:
            chance = expit(shift + design @ moved)
            share = chance / (RHO + chance)
            entropy = -(sample.weights * (q * np.log(share) + (1 - q) * np.log(1 - share))).sum()
            return float(entropy) + 0.5 * float((penalty * moved**2).sum())

        return gradient(expected, slopes)

    curvature = np.array([
        (expected_gradient(at + unit) - expected_gradient(at - unit)) / 2e-3 for unit in np.eye(4) * 1e-3
    ])  # fmt: skip
    step = -np.linalg.solve(curvature + 1e-3 * np.eye(4), gradient(objective, at))
    assert np.abs(design @ step).max() < 6  # longer ones are cut
    moved = fit_slopes(design, sample, RHO, penalty, at, shift, 1) - at
    halved = moved / step
    np.testing.assert_allclose(halved, halved[0], rtol=2e-3)
    assert np.log2(halved[0]) == pytest.approx(round(np.log2(halved[0])), abs=5e-3)


def test_a_known_share_of_missing_facts_is_found_again() -> None:
    """Unknown pairs of which a known number is true, like held-out facts: their probabilities say how many."""
    draw, held_out, missing, false = np.random.default_rng(3), 2000, 1000, 9000
    place = np.concatenate([draw.normal(2, 1, held_out + missing), draw.normal(0, 1, false)])
    is_fact = np.arange(len(place)) < held_out
    sample = Sample(place[:, None], np.zeros(len(place), dtype=np.int64), is_fact, np.ones(len(place)))
    rho = missing / held_out
    model = Additive.blank(sample, rho, np.array([0]), 1).fitted(sample, rho)
    chance = expit(model.log_odds(sample.features, sample.relations))
    true = np.arange(len(place)) < held_out + missing
    assert chance[~is_fact].sum() == pytest.approx(missing, rel=0.1)
    for low, high in ((0, 0.05), (0.05, 0.3), (0.3, 0.7), (0.7, 1)):
        inside = ~is_fact & (chance >= low) & (chance < high)
        assert chance[inside].mean() == pytest.approx(true[inside].mean(), abs=0.06)
    exact = 1 / (1 + false / missing * np.exp(-2 * place + 2))  # by both normal densities
    assert np.abs(chance - exact).mean() < 0.02


def test_hinges_are_cut_off_where_facts_end() -> None:
    sample = drawn()
    basis = Basis.of(sample)
    values = basis(sample.features)
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-4)
    far = np.array([[1e6, 1e6, 1e6], [-1e6, -1e6, -1e6]])
    np.testing.assert_allclose(basis(far), basis(np.stack([basis.high, basis.low])))
    for column, bend, own in zip(basis.columns, basis.bends, values.T, strict=True):
        hinge = np.maximum(np.clip(sample.features[:, column], basis.low[column], basis.high[column]) - bend, 0)
        assert np.corrcoef(hinge, own)[0, 1] == pytest.approx(1)


def test_a_feature_without_values_has_no_bends() -> None:
    sample = drawn()
    constant = Sample(np.column_stack([sample.features, np.zeros(400)]), sample.relations, sample.is_fact,
                      sample.weights)  # fmt: skip
    basis = Basis.of(constant)
    assert (basis.columns == 3).sum() == 1
    assert np.isfinite(basis(constant.features)).all()


def test_log_odds_are_common_and_own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = drawn()
    model = Additive.blank(sample, RHO, np.array([0, 2]), 3)
    chance = expit(model.log_odds(sample.features, sample.relations))
    np.testing.assert_allclose(chance, chance[0])  # nothing is known yet
    fitted = model.fitted(sample, RHO)
    own = np.clip((sample.features[:, [0, 2]] - fitted.own_mean) / fitted.own_scale, -3, 3)
    expected = fitted.basis(sample.features) @ fitted.slopes + fitted.offset
    expected += fitted.own[sample.relations, 0] + (own * fitted.own[sample.relations, 1:]).sum(1)
    found = fitted.log_odds(sample.features, sample.relations)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    monkeypatch.setattr(additive, "ROWS", 7)
    np.testing.assert_allclose(fitted.log_odds(sample.features, sample.relations), found, atol=1e-9)
    assert fitted.fits(3, 3)
    assert not fitted.fits(2, 3)
    assert not fitted.fits(3, 2)


def test_a_relation_without_held_out_facts_adds_nothing_of_its_own() -> None:
    sample = drawn()
    few = sample.select(~sample.is_fact | (sample.relations != 1))
    fitted = Additive.blank(few, RHO, np.array([0]), 4).fitted(few, RHO)
    assert (fitted.own[[1, 3]] == 0).all()
    assert (fitted.own[[0, 2]] != 0).any()
