"""A calibrator from outside the package: one class, registered by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import staypositive as sp


@dataclass(frozen=True)
class Shift(sp.Calibrator):
    """Logits moved so that their mean is that of the labels."""

    name: ClassVar[str] = "shift"
    offset: float

    @classmethod
    def fit(cls, logits: Any, truth: Any) -> Shift:
        share = float(truth.mean())
        return cls(share, float(np.log(share / (1 - share)) - logits.mean()))

    def apply(self, logits: Any) -> Any:
        return np.asarray(logits, dtype=np.float64) + self.offset


def test_a_calibrator_from_outside(
    planted: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sp.CALIBRATORS, "shift", Shift)
    run = sp.fit(planted, model="distmult", dim=4, epochs=2)
    assert run.finish(calibrate="shift", folder=tmp_path / "run")["metrics"]["test"]["classification"]["all"]["shift"]
    again = sp.load_run(tmp_path / "run")
    assert again.calibrator == run.calibrator
    np.testing.assert_array_equal(again.predict_proba(planted.test.triples), run.predict_proba(planted.test.triples))
