"""Settings for a user who sets nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.graph import KnowledgeGraph, Split, Vocabulary
from staypositive.run import defaults
from staypositive.run.defaults import recommended, settings_for

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
    assert recommended(small, CPU)["spread_every"] == 1
    assert recommended(small, CPU)["batch_size"] == 100
    assert recommended(middle, CPU)["spread_every"] == 16
    assert recommended(middle, CPU, exact=True)["spread_every"] == 1
    assert recommended(middle, GPU)["spread_every"] == 1
    assert recommended(middle, GPU)["dim"] > recommended(middle, CPU)["dim"]


def test_very_large_graphs_touch_few_rows_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "LARGE", 100)
    assert settings_for(graph_of(200), CPU).objective.name == "stay-positive"


@pytest.mark.parametrize(
    ("changes", "objective"),
    [
        ({}, "second-moment"),
        ({"epochs": 3, "seed": 1, "n3": 0.02}, "second-moment"),
        ({"model": "simple"}, "stay-positive"),
        ({"objective": "1vsall"}, "1vsall"),
        ({"prior": 0.1}, "stay-positive"),
        ({"penalty_weight": 0.1}, "stay-positive"),
    ],
)
def test_who_chooses_a_part_of_it_gets_what_it_always_meant(changes: dict[str, object], objective: str) -> None:
    chosen = settings_for(planted_graph(), CPU, **changes)
    assert chosen.objective.name == objective
    assert chosen == sp.make_settings(
        **({} if objective != "second-moment" else recommended(planted_graph(), CPU)) | changes
    )


def test_a_user_who_sets_nothing_gets_it() -> None:
    run = sp.fit(planted_graph(), epochs=1)
    assert (run.settings.model, run.settings.objective.name) == ("complex", "second-moment")
