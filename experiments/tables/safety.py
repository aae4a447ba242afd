"""The tables of what was killed, fuzzed, soaked and streamed."""

from __future__ import annotations

import itertools
import shlex

from experiments.tables.common import Rows, markdown
from staypositive.planning import Plan, Shape, Training, plan_training, stored_costs


def _cells(rows: Rows, experiment: str, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
    """The figures of an experiment, by the columns named."""
    own: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            own.setdefault(tuple(row[name] for name in names), {})[row["metric"]] = float(row["value"])
    return own


def kills(rows: Rows) -> str:
    """Trainings killed and resumed, and how many ended as if nothing had happened."""
    cells = _cells(rows, "kills", "model", "objective", "setting")
    lines = [
        [
            f"{model}, {objective}, {setting}",
            *(f"{cell[name]:.0f}" for name in ("kills", "kills_in_saves", "identical")),
        ]
        for (model, objective, setting), cell in sorted(cells.items())
    ]
    total = [sum(int(line[place]) for line in lines) for place in (1, 2, 3)]
    return markdown(["training", "kills", "of them in a save", "same weights"], [*lines, ["all", *map(str, total)]])


def fuzz(rows: Rows) -> str:
    """Cases a target, and crashes among them."""
    cells = _cells(rows, "fuzz", "setting")
    lines = [
        [target, f"{cell['cases']:,.0f}", f"{cell['crashes']:.0f}", f"{cell['seconds']:.0f}"]
        for (target,), cell in sorted(cells.items())
    ]
    return markdown(["target", "cases", "unhandled exceptions", "seconds"], lines)


def soak(rows: Rows) -> str:
    """The service under load and faults."""
    lines = []
    for (setting,), cell in sorted(_cells(rows, "soak", "setting").items()):
        counts = [f"{cell[name]:,.0f}" for name in ("requests", "good_requests", "server_errors")]
        times = [f"{cell[name]:.0f} ms" for name in ("p50_ms", "p99_ms")]
        memory = " / ".join(f"{cell[f'rss_{when}_mb']:.0f}" for when in ("first", "most", "last"))
        files = " / ".join(f"{cell[f'files_{when}']:.0f}" for when in ("first", "most", "last"))
        lines.append([setting, *counts, *times, memory, files])
    header = ["soak", "requests", "good ones", "5xx", "p50", "p99", "MB first / most / last", "open files"]
    return markdown(header, lines)


def large(rows: Rows) -> str:
    """A hundred million triples: time and memory of each step; on a GPU, what the plan says beside them."""
    lines = []
    columns = ("dataset", "model", "dim", "setting", "device", "command")
    for (dataset, model, dim, setting, device, command), cell in sorted(_cells(rows, "large", *columns).items()):
        what = f"{model} {dim}, {setting}" if model else setting
        seconds = cell.get("ingest_seconds", cell.get("epoch_seconds", 0.0))
        shown = [f"{seconds:,.4g}", f"{cell['triples_per_second']:,.0f}", f"{cell['peak_gb']:.1f}"]
        if "cuda" in device:
            plan = _planned(command)
            shown[0] += f" ({plan.epoch_seconds:,.4g})"
            shown[2] += f" ({plan.peak_bytes / 1e9:.1f})"
        lines.append([what, dataset, device, *shown])
    return markdown(["step", "graph", "device", "seconds", "triples a second", "GB at most"], lines)


def _planned(command: str) -> Plan:
    """What `staypositive plan` says of the training of a benchmark's command, on one GPU."""
    words = shlex.split(command)
    options = {word.removeprefix("--"): value for word, value in itertools.pairwise(words) if word.startswith("--")}
    shape = Shape(*(int(options[name]) for name in ("entities", "relations", "triples")))
    training = Training(options["model"], int(options["dim"]), int(options["batch-size"]))
    return plan_training(shape, training, 1, stored_costs())
