"""Presets: settings for a user who names neither a model nor an objective."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import SettingError
from staypositive.graph import KnowledgeGraph, Split, Vocabulary
from staypositive.run import presets
from staypositive.run.presets import recommended, settings_for

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def graph_of(n: int) -> KnowledgeGraph:
    facts = np.stack([np.arange(n), np.zeros(n), (np.arange(n) + 1) % n], axis=1).astype(np.int64)
    none = Split(np.empty((0, 3), dtype=np.int64))
    return KnowledgeGraph(
        "line",
        Vocabulary("entity", [f"e{i}" for i in range(n)]),
        Vocabulary("relation", ["r"]),
        Split(facts),
        none,
        none,
    )


def test_sizes_and_devices() -> None:
    small, middle = graph_of(200), graph_of(6000)
    assert recommended(small, CPU)["gram_update_interval"] == 1
    assert recommended(small, CPU)["batch_size"] == 100
    assert recommended(middle, CPU)["gram_update_interval"] == 16
    assert recommended(middle, CPU, exact=True)["gram_update_interval"] == 1
    assert recommended(middle, GPU)["gram_update_interval"] == 1
    assert recommended(middle, GPU)["dim"] > recommended(middle, CPU)["dim"]


def test_very_large_graphs_touch_few_rows_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "LARGE", 100)
    assert settings_for(graph_of(200), CPU).objective.name == "stay-positive"


@pytest.mark.parametrize(
    ("changes", "objective"),
    [
        ({}, "second-moment"),
        ({"epochs": 3, "seed": 1, "n3": 0.02}, "second-moment"),
        ({"model": "simple"}, "stay-positive"),
        ({"objective": "1vsall"}, "1vsall"),
        ({"model": "simple", "prior": 0.1, "score_bound": 3.0}, "stay-positive"),
        ({"bound": "tanh", "score_bound": 5.0}, "second-moment"),
        ({"preset": "paper"}, "stay-positive"),
        ({"preset": "paper", "penalty_weight": 0.1}, "stay-positive"),
        ({"preset": "paper", "model": "complex"}, "stay-positive"),
    ],
)
def test_only_model_objective_and_preset_decide_what_is_chosen(changes: dict[str, Any], objective: str) -> None:
    chosen = settings_for(planted_graph(), CPU, **changes)
    assert chosen.objective.name == objective
    given = {name: value for name, value in changes.items() if name != "preset"}
    base = recommended(planted_graph(), CPU) if objective == "second-moment" else {}
    assert chosen == sp.make_settings(**base | given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"score_bound": 5.0},
            'score_bound applies to the tanh bound, which preset "paper" (objective stay-positive)',
        ),
        (
            {"prior": 0.1},
            'stay-positive, which preset "paper" uses, and negative-sampling; here objective is second-',
        ),
        (
            {"penalty_weight": 0.1},
            'penalty_weight applies to the objective stay-positive, which preset "paper" uses;',
        ),
        ({"preset": "papers"}, "preset is one of auto, paper, got 'papers'"),
    ],
)
def test_a_keyword_that_the_preset_does_not_use_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=re.escape(said)):
        sp.fit(planted_graph(), **changes)


@pytest.mark.parametrize("name", ["validate_every", "patience", "monitor"])
def test_validation_is_not_asked_for_where_nothing_can_be_validated(name: str) -> None:
    value = "mrr" if name == "monitor" else 2
    with pytest.raises(SettingError, match=f"{name} applies to graphs with validation facts, and line has none"):
        settings_for(graph_of(20), CPU, **{name: value})
    assert settings_for(graph_of(20), CPU).patience == 4  # a preset's own is not asked for


def test_a_user_who_sets_nothing_gets_it() -> None:
    run = sp.fit(planted_graph(), epochs=1)
    assert (run.settings.model, run.settings.objective.name) == ("complex", "second-moment")
    assert run.provenance["preset"] == "auto"
    named = sp.fit(planted_graph(), model="distmult", dim=2, epochs=1)
    assert "preset" not in named.provenance
    with pytest.raises(SettingError, match="either a Settings object or keywords"):
        sp.fit(planted_graph(), sp.Settings(), preset="paper")
