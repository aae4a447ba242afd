"""Data of the experiments: settings, rules and published numbers, as TOML."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from staypositive.toml import parse_toml


@cache
def read_data(name: str) -> dict[str, Any]:
    """Return what `NAME.toml` of this folder holds."""
    return dict(parse_toml((Path(__file__).parent / f"{name}.toml").read_text("utf-8")))
