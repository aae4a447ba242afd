"""The space of a search: what is fixed, and what each searched setting may be, as in a small TOML file.

[settings]
model = "complex"
epochs = 50

[space]
dim = [50, 100, 200]
learning_rate = { low = 0.01, high = 1.0, log = true }
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, SettingError
from staypositive.graph import KnowledgeGraph
from staypositive.objectives import OBJECTIVES
from staypositive.run import Settings
from staypositive.run.settings import settings_from, unused
from staypositive.toml import parse_toml


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included: whole ones if both are; `log` draws them evenly by ratio."""

    low: float | int
    high: float | int
    log: bool = False

    def __post_init__(self) -> None:
        numbers = all(isinstance(end, int | float) and math.isfinite(end) for end in (self.low, self.high))
        if not numbers or not self.low < self.high or (self.log and self.low <= 0):
            raise SettingError(f"a range goes from a low to a higher number, above 0 if log; got {self}")


Choices = tuple[Any, ...]


@dataclass(frozen=True)
class Space:
    """What is fixed and what is searched, both by names of settings or of the objective's options."""

    searched: Mapping[str, Choices | Range]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, chosen: Mapping[str, Any]) -> Settings:
        """Return the settings of one choice; what has no effect with it is left as it is."""
        return settings_from({**self.fixed, **chosen})

    def with_fixed(self, **fixed: Any) -> Space:
        """Return the space with more settings fixed; those are searched no longer."""
        left = {name: choice for name, choice in self.searched.items() if name not in fixed}
        return Space(left, {**self.fixed, **fixed})

    def first(self) -> dict[str, Any]:
        return {name: own.low if isinstance(own, Range) else own[0] for name, own in self.searched.items()}

    def suggested(self, trial: Any) -> Settings:
        """Return the settings that an Optuna trial suggests."""
        chosen = {}
        for name, own in self.searched.items():
            if isinstance(own, Range):
                is_whole = isinstance(own.low, int) and isinstance(own.high, int)
                suggest = trial.suggest_int if is_whole else trial.suggest_float
                chosen[name] = suggest(name, own.low, own.high, log=own.log)
            else:
                chosen[name] = trial.suggest_categorical(name, own)
        return self.settings(chosen)

    def checked(self) -> Space:
        """Return the space, or raise the error that a setting of it would raise.

        A name of the space has to have an effect with some choice of the others.
        """
        if not self.searched:
            raise SettingError("there is nothing to search: every setting of the space is fixed")
        first, names = self.first(), [*self.fixed, *self.searched]
        idle: list[dict[str, str]] = []
        for name, own in self.searched.items():
            for value in (own.low, own.high) if isinstance(own, Range) else own:
                idle.append(unused(self.settings({**first, name: value}), names))
        for name, said in idle[0].items():
            if all(name in found for found in idle):
                raise SettingError(said)
        return self

    def grid(self) -> list[dict[str, Any]]:
        """Return every combination, in a fixed order."""
        ranges = [name for name, choice in self.searched.items() if isinstance(choice, Range)]
        if ranges:
            raise SettingError(f"a grid needs a list of values for each setting; {', '.join(ranges)} has a range")
        lists = [choice for choice in self.searched.values() if not isinstance(choice, Range)]
        return [dict(zip(self.searched, values, strict=True)) for values in itertools.product(*lists)]

    def as_dict(self) -> dict[str, Any]:
        searched = {n: asdict(c) if isinstance(c, Range) else list(c) for n, c in self.searched.items()}
        return {"settings": dict(self.fixed), "space": searched}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        unknown = set(data) - {"settings", "space", "found"}  # a file of the best setting is one too
        if unknown:
            raise SettingError(f"a space has the tables [settings] and [space], not [{sorted(unknown)[0]}]")
        tables = {name: data.get(name, {}) for name in ("settings", "space")}
        for name, said in tables.items():
            if not isinstance(said, Mapping):
                raise SettingError(f"[{name}] is a table of settings, got {said!r:.80}")
        searched = {name: _choice(name, said) for name, said in tables["space"].items()}
        fixed = {name: value for name, value in tables["settings"].items() if name not in searched}
        return cls(searched, fixed)


def _choice(name: str, said: Any) -> Choices | Range:
    if isinstance(said, Mapping) and {"low", "high"} <= said.keys() <= {"low", "high", "log"}:
        return Range(**said)
    if isinstance(said, Sequence) and not isinstance(said, str) and said:
        return tuple(said)
    raise SettingError(f"{name} is searched over a list of values or over {{ low, high, log }}, got {said!r}")


def read_space(path: str | os.PathLike[str]) -> Space:
    try:
        return Space.from_dict(parse_toml(Path(path).read_text("utf-8")))
    except (ValueError, RecursionError, SettingError) as error:  # no text, no TOML, or no space
        raise DataError(str(error), path) from None


_COMMON = {"dim": (50, 100, 200), "dropout": (0.0, 0.2, 0.4)}
PAPER_BATCHES = 100
"""Batches per epoch, as in the authors' code."""


def default_space(objective: str = "stay-positive") -> Space:
    """Return the space that an objective declares, with sizes and dropout."""
    if objective not in OBJECTIVES:
        raise SettingError(f"expected an objective among {', '.join(OBJECTIVES)}, got {objective!r}")
    own = OBJECTIVES[objective].search_space
    return Space.from_dict({"settings": {"objective": objective}, "space": {**own, **_COMMON}})


def paper_space(objective: str = "stay-positive", facts: int | None = None) -> Space:
    """Return the paper's grid for an objective; with the number of facts, its hundred batches per epoch too."""
    grids = {name: kind.paper_grid for name, kind in OBJECTIVES.items() if kind.paper_grid}
    if objective not in grids:
        raise SettingError(f"the paper has a grid for {' and '.join(grids)}, not for {objective}")
    batch = {} if facts is None else {"batch_size": -(-facts // PAPER_BATCHES)}
    return Space(dict(grids[objective]), {"objective": objective, **batch})


def choose_space(
    graph: KnowledgeGraph, path: Path | None = None, preset: str | None = None, objective: str | None = None
) -> Space:
    """Return the space of a file, the paper's grid for preset `paper`, or else one for the objective."""
    if path is not None and preset is not None:
        raise SettingError("give either --space or --preset, not both")
    if path is not None:
        return read_space(path).with_fixed(**({} if objective is None else {"objective": objective}))
    if preset is not None:
        return paper_space(objective or "stay-positive", len(graph.train))
    return default_space(objective or "stay-positive")
