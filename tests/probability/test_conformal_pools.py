"""Relations without thresholds of their own share thresholds among themselves."""

from __future__ import annotations

import numpy as np
import pytest

import staypositive as sp
from conftest import planted_graph
from staypositive.probability import Conformal, prediction_sets


def test_the_rest_pool_among_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sp.fit(planted_graph(), model="complex", objective="second-moment", dim=4, epochs=2, batch_size=64)
    facts = run.graph.valid.facts
    counts = np.bincount(facts[:, 1])
    largest = int(counts.argmax())
    monkeypatch.setattr(prediction_sets, "ENOUGH", int(counts.max()))
    found = Conformal.fit(run._scorer, facts)
    own = {relation for _, relation in found.own}
    assert largest in own
    rest = facts[~np.isin(facts[:, 1], list(own))]
    assert len(rest) >= prediction_sets.FEWEST
    for side in ("head", "tail"):
        alone = Conformal.fit(run._scorer, rest)
        np.testing.assert_allclose(found.rest[side], alone.pooled[side], atol=1e-9)
        other = int(rest[0, 1])
        assert found.threshold(side, other, 0.5) == alone.threshold(side, other, 0.5, per_relation=False)
        assert found.threshold(side, other, 0.5, per_relation=False) == found.threshold(side, largest, 0.5, False)
