"""Tables of settings and of objectives' options, from their declarations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from experiments.tables.common import Rows
from staypositive.objectives import objective_options
from staypositive.options import described
from staypositive.run.settings import declarations


def settings(_: Rows) -> str:
    """Return every field of `Settings` that is an option, and the options of models."""
    own = [said for owners in declarations().values() for said in owners if said.of != "objective"]
    return _table("setting", (said.field for said in own), [said.owner for said in own])


def options(objective: str, _: Rows) -> str:
    """Return the options of an objective."""
    return _table("option", objective_options(objective).values())


def _table(what: str, fields: Iterable[dataclasses.Field[Any]], models: Iterable[str] = ()) -> str:
    lines = [f"| {what} | default | meaning |", "| :-- | :-- | :-- |"]
    for field, model in zip_longest(fields, models):
        choices = field.metadata["choices"]
        one_of = f"; one of {', '.join(map(str, choices))}" if choices and bool not in map(type, choices) else ""
        default = "" if field.default is None else str(field.default)
        text = f"{described(field)}{one_of}".replace("|", r"\|")
        lines.append(f"| `{field.name}`{f' of {model}' if model else ''} | {default} | {text} |")
    return "\n".join(lines) + "\n"
