"""Tables of settings and of objectives' options, from their declarations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from experiments.tables.common import Rows
from staypositive.objectives import objective_options
from staypositive.options import described
from staypositive.run.settings import SETTINGS


def settings(_: Rows) -> str:
    """Return every field of `Settings` but the objective."""
    return _table("setting", (field for name, field in SETTINGS.items() if name != "objective"))


def options(objective: str, _: Rows) -> str:
    """Return the options of an objective."""
    return _table("option", objective_options(objective).values())


def _table(what: str, fields: Iterable[dataclasses.Field[Any]]) -> str:
    lines = [f"| {what} | default | meaning |", "| :-- | :-- | :-- |"]
    for field in fields:
        choices = field.metadata["choices"]
        one_of = f"; one of {', '.join(map(str, choices))}" if choices and bool not in map(type, choices) else ""
        default = "" if field.default is None else str(field.default)
        text = f"{described(field)}{one_of}".replace("|", r"\|")
        lines.append(f"| `{field.name}` | {default} | {text} |")
    return "\n".join(lines) + "\n"
