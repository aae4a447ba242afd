"""`results/index.csv`: every committed figure is a row, one row a seed; tables in the docs are made from it."""

from __future__ import annotations

import csv
import io
import os
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.evaluation import SIDES, TIES
from staypositive.files import write_atomic
from staypositive.run import Run

COLUMNS = (
    "experiment", "dataset", "model", "objective", "dim", "setting", "split", "side", "filter", "ties", "calibration",
    "unseen", "metric", "value", "unit", "seed", "negatives_drawn", "selected_on", "published", "source", "device",
    "version", "commit", "data_sha256", "command", "file",
)  # fmt: skip
_KEY = (*COLUMNS[: COLUMNS.index("value")], "seed", "device")
_RANKING_UNITS = {"mr": "rank"}

Row = dict[str, str]


def read_index(path: str | os.PathLike[str]) -> list[Row]:
    """Read the index; an absent file is an empty one."""
    path = Path(path)
    if not path.exists():
        return []
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))
    if rows and tuple(rows[0]) != COLUMNS:
        raise DataError(f"expected the columns {','.join(COLUMNS)}", path, 1)
    return rows


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Put rows into the index; a row that measures the same thing as an old one takes its place."""
    held = {_key(row): row for row in read_index(path)}
    count = 0
    for row in rows:
        unknown = set(row) - set(COLUMNS)
        if unknown:
            raise InputError(f"the index has no column {', '.join(sorted(unknown))}")
        plain = {column: _text(row.get(column, "")) for column in COLUMNS}
        held[_key(plain)] = plain
        count += 1
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(held.values(), key=_key))
    write_atomic(path, stream.getvalue())
    return count


def rows_of_run(run: Run, split: str, command: str, *, experiment: str, setting: str, selected_on: str) -> list[Row]:
    """Return the rows of a run's evaluation: ranking in every reading, classification in every calibration."""
    common = _common(run, split, command) | {
        "experiment": experiment,
        "setting": setting,
        "selected_on": selected_on,
    }
    rows: list[dict[str, Any]] = []
    report = run.metrics[split]
    if "ranking" in report:
        for kind in ("filtered", "raw"):
            for ties in TIES:
                for side in SIDES:
                    place = {"filter": kind, "ties": ties, "side": side, "unseen": "with"}
                    rows += _metric_rows(common | place, report["ranking"][kind][ties][side])
        if "without_unseen" in report["ranking"]:
            place = {"filter": "filtered", "ties": "realistic", "side": "both", "unseen": "without"}
            rows += _metric_rows(common | place, report["ranking"]["without_unseen"])
    for scope, unseen in (("all", "with"), ("without_unseen", "without")):
        for way, metrics in report.get("classification", {}).get(scope, {}).items():
            if isinstance(metrics, dict):
                rows += _metric_rows(common | {"calibration": way, "unseen": unseen}, metrics)
    seconds = statistics.median(record.seconds for record in run.history)
    rows.append(common | {"metric": "epoch_seconds", "value": seconds, "unit": "s", "split": "train"})
    return [{column: _text(row.get(column, "")) for column in COLUMNS} for row in rows]


def _common(run: Run, split: str, command: str) -> dict[str, Any]:
    facts = len(run.graph.train.facts)
    return {
        "dataset": run.graph.name,
        "model": run.settings.model,
        "objective": run.settings.objective.name,
        "dim": run.settings.dim,
        "split": split,
        "seed": run.settings.seed,
        "negatives_drawn": run.settings.objective.negatives_per_fact * facts * len(run.history),
        "device": run.provenance["device"],
        "version": run.provenance["version"],
        "commit": run.provenance["commit"],
        "data_sha256": run.provenance["graph_sha256"],
        "command": command,
    }


def _metric_rows(place: dict[str, Any], metrics: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        place | {"metric": name, "value": value, "unit": _RANKING_UNITS.get(name, "")}
        for name, value in metrics.items()
        if isinstance(value, float)
    ]


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in _KEY)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
