"""What the tables of all pages share."""

from __future__ import annotations

import statistics
from pathlib import Path

from experiments.store import Row

RESULTS = Path(__file__).resolve().parents[2] / "results"
Rows = list[Row]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a table; the first column is text, the others numbers."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def by_setting(rows: Rows, experiment: str) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of an experiment by model and setting."""
    own: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            own.setdefault((row["model"], row["setting"]), {})[row["metric"]] = float(row["value"])
    return own


def seeds(values: list[float]) -> str:
    """Mean and spread of some seeds' figures."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"
