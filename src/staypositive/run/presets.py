"""Presets: what settings start from where the user names neither a model nor an objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from staypositive.errors import SettingError
from staypositive.graph import KnowledgeGraph, StreamedSplit
from staypositive.objectives import StayPositive
from staypositive.run.settings import SETTINGS, Settings, require_used, settings_from

SMALL, LARGE = 5_000, 1_000_000
"""Entities up to which, without a GPU, every step is exact, and beyond which Gram matrices cost too much."""
PRESETS = ("auto", "paper")
"""`auto` is what measured best for graphs of that size, `paper` SimplE by stay-positive with the paper's defaults."""


def settings_for(
    graph: KnowledgeGraph, device: torch.device, /, *, preset: str = "auto", exact: bool = False, **changes: Any
) -> Settings:
    """Return settings from keywords, on top of a preset's; an option that has no effect with the others is an error.

    Naming a model or an objective takes the defaults of that objective instead of preset `auto`; no other keyword
    changes what is chosen. `exact` keeps every step exact, whatever it costs.
    """
    base = recommended(graph, device, exact=exact) if is_recommended(preset, changes) else {}
    settings = settings_from({**base, **changes})
    require_used(settings, changes)
    for name in ("validate_every", "patience", "monitor"):
        if changes.get(name) is not None and not len(graph.valid.facts):
            raise SettingError(f"{name} applies to graphs with validation facts, and {graph.name} has none")
    return settings


def is_recommended(preset: str, changes: Mapping[str, Any]) -> bool:
    """Return whether a preset and keywords leave model and objective to `recommended`."""
    if preset not in PRESETS:
        raise SettingError(f"preset is one of {', '.join(PRESETS)}, got {preset!r}")
    return preset == "auto" and not {"model", "objective"} & changes.keys()


def preset_of(preset: str, changes: Mapping[str, Any]) -> dict[str, str]:
    """Return what provenance says of a preset: nothing where a named model or objective takes the place of `auto`."""
    return {"preset": preset} if preset != "auto" or is_recommended(preset, changes) else {}


def check_given(preset: str, changes: Mapping[str, Any]) -> None:
    """Refuse what is wrong in a preset and keywords before there is a graph, as far as it can be known."""
    if is_recommended(preset, changes):
        settings_from({name: value for name, value in changes.items() if name in SETTINGS})
    else:
        require_used(settings_from(changes), changes)


def recommended(graph: KnowledgeGraph, device: torch.device, *, exact: bool = False) -> dict[str, Any]:
    """Return the settings that measured best, for the minutes they take, on graphs of this size."""
    n_entities, n_facts = len(graph.entities), len(graph.train)
    if n_entities > LARGE or isinstance(graph.train, StreamedSplit):
        batch_size = min(16384, max(1024, n_facts // 1000))
        return {"model": "simple", "objective": StayPositive.name, "batch_size": batch_size}
    has_gpu = device.type == "cuda"
    return {
        "model": "complex",
        "objective": "second-moment",
        "dim": 512 if has_gpu else 128,
        "dropout": 0.5 if has_gpu else 0.3,
        "batch_size": max(100, min(1000, n_facts // 50)),
        "likelihood_weight": 0.3,
        "gram_update_interval": 1 if has_gpu or exact or n_entities <= SMALL else 16,
        "epochs": 40,
        "validate_every": 3,
        "patience": 4,
    }
