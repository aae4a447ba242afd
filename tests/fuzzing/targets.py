"""The targets by name."""

from __future__ import annotations

from pathlib import Path

from fuzzing.cases import Target

TARGETS = ("readers", "headers", "columns", "runs", "checkpoints", "shards", "configs", "service")


def make_target(name: str, folder: Path) -> Target:
    """Build a target; its libraries are imported only then."""
    if name == "readers":
        from fuzzing.readers import Readers

        return Readers(folder)
    if name in ("headers", "columns"):
        from fuzzing.tables import Columns, Headers

        return Headers(folder) if name == "headers" else Columns(folder)
    if name == "runs":
        from fuzzing.runs import Runs

        return Runs(folder)
    if name == "checkpoints":
        from fuzzing.checkpoints import Checkpoints

        return Checkpoints(folder)
    if name == "shards":
        from fuzzing.shards import Shards

        return Shards(folder)
    if name == "configs":
        from fuzzing.configs import Configs

        return Configs(folder)
    from fuzzing.requests import Requests

    return Requests(folder)
