"""The examples run, and show what they claim."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from conftest import load_example


@pytest.fixture(scope="module")
def recommender() -> ModuleType:
    return load_example("recommender")


def test_the_recommender_beats_popularity_and_not_the_truth(recommender: ModuleType) -> None:
    shop = recommender.plant(400, 150, tastes=3)
    run = recommender.train(shop, dim=8, epochs=150)
    found = recommender.compare(shop, run, dim=8)
    for metric in ("recall@20", "NDCG@100"):
        assert found["popularity"][metric] + 0.02 < found["second moment"][metric] < found["the truth"][metric]
        assert found["popularity"][metric] + 0.02 < found["iALS"][metric] < found["the truth"][metric]


def test_als_reaches_a_stationary_point_of_the_stated_loss(recommender: ModuleType) -> None:
    """After the last half-sweep no item's row can be bettered: the gradient of the enumerated loss is zero."""
    shop = recommender.plant(60, 30, tastes=2)
    likes, w0, l2 = shop.mask("train"), recommender.W0, 1.0
    users, items = recommender.factors(shop, dim=3, sweeps=2, l2=l2)
    scores = users @ items.T
    slope = np.where(likes, scores - 1, w0 * scores).T @ users + l2 * items
    np.testing.assert_allclose(slope, 0, atol=1e-9)


def test_metrics_by_hand(recommender: ModuleType) -> None:
    shop = recommender.Shop(np.zeros((2, 4)), np.array([[0, 0]]), np.array([[0, 1]]), np.array([[0, 3]]))
    found = recommender.measure(np.array([[9.0, 8.0, 7.0, 6.0], [0.0] * 4]), shop)
    assert found["recall@20"] == 1.0
    assert found["NDCG@100"] == pytest.approx(1 / np.log2(3))  # second among the two items that are new to the user


def test_the_recommender_tells_its_story(
    recommender: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["recommender.py", "--users", "200", "--items", "80", "--dim", "4", "--epochs", "3"]
    )
    recommender.main()
    told = capsys.readouterr().out
    assert "recall@20" in told
    assert "true chance" in told
    assert "prediction set at 80%" in told
