"""Runs that come with the package, by name: something to ask a minute after installing."""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent / "packaged"


def packaged_runs() -> tuple[str, ...]:
    """Return the names of the runs inside the package."""
    return tuple(sorted(path.parent.name for path in _HERE.glob("*/run.json")))


def is_packaged(name: str | os.PathLike[str]) -> bool:
    """Whether a name means a run of the package: a file or folder of that name comes first."""
    return not Path(name).exists() and str(name) in packaged_runs()


def find_run(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a run given by its folder or by a packaged name."""
    return _HERE / str(name) if is_packaged(name) else Path(name)
