"""The three ways to state ψ."""

from __future__ import annotations

import math

import pytest

from staypositive.errors import SettingError
from staypositive.models import logit, resolve_prior_score


def test_each_way() -> None:
    assert resolve_prior_score(density=0.1) == 0
    assert resolve_prior_score(-2, density=0.1) == -2
    assert resolve_prior_score(prior=0.2, density=0.1) == pytest.approx(math.log(0.25))
    assert resolve_prior_score(closed_world="literal", density=0.1) == 0.1
    assert resolve_prior_score(closed_world="logit", density=0.1) == pytest.approx(math.log(1 / 9))


def test_only_one_at_a_time() -> None:
    with pytest.raises(SettingError, match="one of"):
        resolve_prior_score(0.0, prior=0.5, density=0.1)
    with pytest.raises(SettingError, match="literal, logit"):
        resolve_prior_score(closed_world="yes", density=0.1)


@pytest.mark.parametrize("p", [0, 1, -0.1, math.nan])
def test_a_prior_is_a_probability(p: float) -> None:
    with pytest.raises(SettingError, match="probability"):
        logit(p)
