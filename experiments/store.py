"""The results: every committed figure, one row per seed, in two text files that git can compare.

`runs.jsonl` says what was run, one line per run: data, model, setting, code, device, command. `figures.csv` says what
was measured, one line per figure and seed, each with the id of its run. Joined, they have the columns `COLUMNS`;
tables, checks and plots all read them through `read_results`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
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
OF_RUN = (
    "experiment", "dataset", "model", "objective", "dim", "setting", "negatives_drawn", "selected_on", "device",
    "version", "commit", "data_sha256", "command", "file",
)  # fmt: skip
OF_FIGURE = (
    "run", "split", "side", "filter", "ties", "calibration", "unseen", "metric", "seed", "value", "unit", "published",
    "source",
)  # fmt: skip
RUNS, FIGURES = "runs.jsonl", "figures.csv"
SEED = "{seed}"
"""Stands for the figure's seed in the file of its run."""
_KEY = (*COLUMNS[: COLUMNS.index("value")], "seed", "device")
_RANKING_UNITS = {"mr": "rank"}

Row = dict[str, str]


def read_results(folder: str | os.PathLike[str]) -> list[Row]:
    """Return every figure with the columns of its run, sorted; a folder without results has none."""
    folder = Path(folder)
    path = folder / FIGURES
    if not path.exists():
        return []
    runs = _read_runs(folder / RUNS)
    reader = csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
    if tuple(reader.fieldnames or ()) != OF_FIGURE:
        raise DataError(f"expected the columns {','.join(OF_FIGURE)}", path, 1)
    rows = []
    for figure in reader:
        run = runs.get(figure["run"])
        if run is None:
            raise DataError(f"{RUNS} has no run {figure['run']}", path, reader.line_num)
        whole = run | figure | {"file": run["file"].replace(SEED, figure["seed"])}
        rows.append({column: whole[column] for column in COLUMNS})
    return rows


def add_rows(folder: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Add figures to the results; one that measures the same thing as an old one takes its place."""
    folder = Path(folder)
    held = {_key(row): row for row in read_results(folder)}
    count = 0
    for row in rows:
        unknown = set(row) - set(COLUMNS)
        if unknown:
            raise InputError(f"the results have no column {', '.join(sorted(unknown))}")
        plain = {column: as_text(row.get(column, "")) for column in COLUMNS}
        held[_key(plain)] = plain
        count += 1
    write_results(folder, held.values())
    return count


def write_results(folder: Path, rows: Iterable[Row]) -> None:
    """Write both files. Runs come before the figures that name them, and go after, so that a crash loses nothing."""
    runs: dict[str, Row] = {}
    figures = []
    for row in sorted(rows, key=_key):
        run = {column: row[column] for column in OF_RUN} | {"file": _of_all_seeds(row["file"], row["seed"])}
        runs[name := _id(run)] = run
        figures.append({column: row.get(column, name) for column in OF_FIGURE})
    before = _read_runs(folder / RUNS) if (folder / RUNS).exists() else {}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / RUNS, _runs_text(before | runs))
    write_atomic(folder / FIGURES, csv_text(OF_FIGURE, figures))
    write_atomic(folder / RUNS, _runs_text(runs))


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with a header."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, tuple(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_text(value: Any) -> str:
    """Return a cell as it is written: floats with six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in _KEY)


def _id(run: Row) -> str:
    return f"{run['experiment']}-{hashlib.sha256(json.dumps(run).encode()).hexdigest()[:6]}"


def _of_all_seeds(file: str, seed: str) -> str:
    """Return a file's name with a mark in place of the seed, where that can be undone."""
    head, mark, tail = file.rpartition(f"-{seed}")
    marked = f"{head}-{SEED}{tail}" if mark else file
    return marked if marked.replace(SEED, seed) == file else file


def _runs_text(runs: Mapping[str, Row]) -> str:
    lines = []
    for name, run in runs.items():
        said: dict[str, Any] = {"run": name} | {column: value for column, value in run.items() if value}
        if run["setting"]:
            said["setting"] = setting_as_json(run["setting"])
        lines.append(json.dumps(said, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


def _read_runs(path: Path) -> dict[str, Row]:
    runs = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            said = json.loads(line)
            name, setting = said.pop("run"), setting_as_text(said.get("setting", []))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"not a run: {error}", path, number) from None
        runs[name] = {column: str(said.get(column, "")) for column in OF_RUN} | {"setting": setting}
    return runs


def setting_as_json(text: str) -> list[Any]:
    """Return the parts of a setting: options by name where a part lists options, else its words."""
    parts = [_part_as_json(part) for part in text.split("; ")]
    return parts if setting_as_text(parts) == text else [text]


def _part_as_json(part: str) -> Any:
    named = re.fullmatch(r"([^:,]+): (.+)", part)
    if named:
        options = _part_as_json(named[2])
        return {named[1]: options} if isinstance(options, dict) else part
    found = re.findall(r"([^\s,]+) ([^\s,]+)(?:, |$)", part)
    options = {name: _number(value) for name, value in found}
    return options if any(not isinstance(value, str) for value in options.values()) else part


def _number(text: str) -> bool | int | float | str:
    for kind in (int, float):
        try:
            if str(kind(text)) == text:
                return kind(text)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(text, text)


def setting_as_text(parts: Iterable[Any]) -> str:
    """Return a setting as tables show it: `lr 0.1, d 200; 50 epochs`."""
    return "; ".join(map(_part_as_text, parts))


def _part_as_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    return ", ".join(
        f"{name}: {_part_as_text(value)}" if isinstance(value, dict) else f"{name} {value}"
        for name, value in part.items()
    )


def rows_of_run(run: Run, split: str, command: str, *, experiment: str, setting: str, selected_on: str) -> list[Row]:
    """Return the rows of a run's evaluation: ranking in every reading, classification in every calibration."""
    common = columns_of_run(run, command) | {
        "experiment": experiment,
        "setting": setting,
        "selected_on": selected_on,
        "split": split,
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
    return [{column: as_text(row.get(column, "")) for column in COLUMNS} for row in rows]


def columns_of_run(run: Run, command: str) -> dict[str, Any]:
    """Return the columns that all figures of a run share."""
    facts = len(run.graph.train.facts)
    return {
        "dataset": run.graph.name,
        "model": run.settings.model,
        "objective": run.settings.objective.name,
        "dim": run.settings.dim,
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
