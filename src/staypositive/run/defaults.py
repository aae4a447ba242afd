"""What to train by where the user does not say: what measured best for the minutes of a graph of that size."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from staypositive.graph import KnowledgeGraph, StreamedSplit
from staypositive.objectives import SecondMoment, objective_options
from staypositive.run.settings import Settings, make_settings

SMALL, LARGE = 5_000, 1_000_000
"""Entities up to which, without a GPU, every step is exact, and beyond which Gram matrices cost too much."""


OPEN = {field.name for field in dataclasses.fields(Settings)} - {
    "model", "objective", "slices", "bound", "score_bound", "prior_score", "prior", "closed_world",
} | objective_options(SecondMoment.name).keys()  # fmt: skip
"""What one may set and still leave model and objective to us; the others speak of the paper, or of a choice made."""


def settings_for(graph: KnowledgeGraph, device: torch.device, /, *, exact: bool = False, **changes: Any) -> Settings:
    """Return settings from keywords; where these choose neither model nor objective, on top of `recommended` ones."""
    base = recommended(graph, device, exact=exact) if changes.keys() <= OPEN else {}
    return make_settings(**base | changes)


def recommended(graph: KnowledgeGraph, device: torch.device, *, exact: bool = False) -> dict[str, Any]:
    """Return the settings that measured best, for the minutes they take, on graphs of this size.

    `exact` keeps every step exact, whatever it costs.
    """
    n_entities, n_facts = len(graph.entities), len(graph.train)
    if n_entities > LARGE or isinstance(graph.train, StreamedSplit):
        return {"model": "simple", "objective": "stay-positive", "batch_size": min(16384, max(1024, n_facts // 1000))}
    has_gpu = device.type == "cuda"
    return {
        "model": "complex",
        "objective": "second-moment",
        "dim": 512 if has_gpu else 128,
        "dropout": 0.5 if has_gpu else 0.3,
        "batch_size": max(100, min(1000, n_facts // 50)),
        "likelihood_weight": 0.3,
        "spread_every": 1 if has_gpu or exact or n_entities <= SMALL else 16,
        "epochs": 40,
        "validate_every": 3,
        "patience": 4,
    }
