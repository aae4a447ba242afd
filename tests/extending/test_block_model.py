"""A block model from outside the package: one row of terms, registered by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import staypositive as sp


def test_a_block_model_from_outside(
    planted: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # CP read both ways: ⟨h₀, r₀, t₁⟩ + ⟨h₁, r₀, t₀⟩
    monkeypatch.setitem(sp.MODELS, "two-way", sp.Table(2, 1, "001+ 100+"))
    run = sp.fit(planted, model="two-way", dim=8, epochs=40, batch_size=64, learning_rate=0.5)
    assert run.metric("auc") > 0.9
    again = sp.load_run(run.save(tmp_path / "run"))
    assert again.settings == run.settings
    assert again.metric("mrr") == run.metric("mrr")
