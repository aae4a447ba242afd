"""The space of a search: what is fixed, and what each searched setting may be. A small TOML file, or a default.

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

    def checked(self) -> Space:
        """Return the space, or raise the error that a setting of it would raise.

        A name of the space has to have an effect with some choice of the others.
        """
        if not self.searched:
            raise SettingError("there is nothing to search: every setting of the space is fixed")
        ends = {
            name: (choice.low, choice.high) if isinstance(choice, Range) else choice
            for name, choice in self.searched.items()
        }
        first = {name: values[0] for name, values in ends.items()}
        idle: dict[str, str] | None = None
        for name, values in ends.items():
            for value in values:
                found = unused(self.settings({**first, name: value}), [*self.fixed, *self.searched])
                idle = found if idle is None else {key: said for key, said in idle.items() if key in found}
        for said in (idle or {}).values():
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
        """Return the space as its file says it."""
        searched = {n: asdict(c) if isinstance(c, Range) else list(c) for n, c in self.searched.items()}
        return {"settings": dict(self.fixed), "space": searched}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """Build a space from what a file says."""
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
    """Read a space from its TOML file."""
    try:
        return Space.from_dict(parse_toml(Path(path).read_text("utf-8")))
    except (ValueError, RecursionError, SettingError) as error:  # no text, no TOML, or no space
        raise DataError(str(error), path) from None


_COMMON: dict[str, Choices | Range] = {"dim": (50, 100, 200), "dropout": (0.0, 0.2, 0.4)}
_OWN: dict[str, dict[str, Choices | Range]] = {
    "stay-positive": {
        "learning_rate": Range(0.03, 1.0, log=True),
        "penalty_weight": Range(1e-4, 1.0, log=True),
        "prior_score": Range(-4.0, 0.0),
    },
    "second-moment": {
        "learning_rate": Range(0.03, 0.3, log=True),
        "unobserved_weight": Range(1e-4, 3e-2, log=True),
        "relation_weight": Range(0.0, 1.0),
        "n3": Range(1e-3, 0.1, log=True),
    },
    "negative-sampling": {
        "learning_rate": Range(0.03, 1.0, log=True),
        "l2": Range(1e-4, 0.1, log=True),
        "negatives": (1, 4, 10),
    },
    "1vsall": {"learning_rate": Range(0.03, 1.0, log=True), "n3": Range(1e-4, 0.1, log=True)},
}


def default_space(objective: str = "stay-positive") -> Space:
    """Return a sensible space for an objective."""
    if objective not in _OWN:
        raise SettingError(f"expected an objective among {', '.join(_OWN)}, got {objective!r}")
    return Space({**_OWN[objective], **_COMMON}, {"objective": objective})


BATCHES = 100
"""Batches per epoch in the authors' code: 1126 facts each on WN11."""
PAPER_GRIDS: dict[str, dict[str, Choices]] = {  # the paper's appendix; bound 5 and power 1 throughout
    "stay-positive": {
        "learning_rate": (0.1, 0.01, 0.001, 0.0001),
        "penalty_weight": (0.1, 0.001),
        "dim": (100, 200),
        "dropout": (0.0, 0.4),
        "prior_score": (-3.0, -2.0, -1.0, 0.0),
    },
    "negative-sampling": {
        "learning_rate": (0.1, 0.01, 0.001, 0.0001),
        "l2": (0.1, 0.01, 0.001),
        "dim": (100, 200),
        "dropout": (0.0, 0.4),
        "negatives": (1, 10),
    },
}


def paper_space(objective: str = "stay-positive", facts: int | None = None) -> Space:
    """Return the paper's grid for an objective; with the number of facts, its hundred batches per epoch too."""
    if objective not in PAPER_GRIDS:
        raise SettingError(f"the paper has a grid for stay-positive and negative-sampling, not for {objective}")
    fixed: dict[str, Any] = {"objective": objective}
    if facts is not None:
        fixed["batch_size"] = -(-facts // BATCHES)
    return Space(dict(PAPER_GRIDS[objective]), fixed)
