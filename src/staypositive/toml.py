"""TOML, by the standard library or, before Python 3.11, by `tomli`, which is the same parser."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def parse_toml(text: str) -> dict[str, Any]:
    r"""Return the tables of a TOML document; what is not TOML is a `ValueError`.

    >>> parse_toml("[settings]\ndim = 8")
    {'settings': {'dim': 8}}
    """
    return tomllib.loads(text)
