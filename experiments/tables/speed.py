"""Tables of speed."""

from __future__ import annotations

import statistics

from experiments.tables.common import Rows, by_setting, markdown

BESIDE = (
    "idle", "two single-threaded programs", "one multi-threaded program", "two multi-threaded programs",
)  # fmt: skip
"""The neighbours of `speed/busy.py`, in the order of its table."""


def speed(rows: Rows, experiment: str) -> str:
    """Epochs of one benchmark run, best first within a workload."""
    own: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            key = (row["dataset"], row["model"], row["dim"], row["setting"], row["device"])
            own.setdefault(key, {})[row["metric"]] = row["value"]
    lines = []
    for (dataset, model, dim, setting, device), cell in own.items():
        if "epoch_seconds" in cell:
            floor = f"{float(cell['bandwidth_fraction']):.1%}" if "bandwidth_fraction" in cell else ""
            rate, seconds = float(cell["triples_per_second"]) / 1e6, float(cell["epoch_seconds"])
            lines.append([f"{model}, {setting}", dataset, dim, f"{seconds:.4g}", f"{rate:.3g}", floor, device])
    header = ["model, engine", "data", "d", "s an epoch", "M triples/s", "of floor", "device"]
    return markdown(header, sorted(lines, key=lambda line: (line[1], float(line[3]))))


def speed_theorem(rows: Rows) -> str:
    """Theorem 1 against enumeration."""
    own: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["metric"] in ("theorem_seconds", "enumeration_seconds"):
            own.setdefault(f"{row['model']}, {row['setting']}", {})[row["metric"]] = row["value"]
    lines = [
        [what, cell["theorem_seconds"], cell["enumeration_seconds"],
         f"{float(cell['enumeration_seconds']) / float(cell['theorem_seconds']):.0f}"]
        for what, cell in own.items()
    ]  # fmt: skip
    return markdown(["", "Theorem 1, s", "enumeration, s", "ratio"], sorted(lines, key=lambda line: float(line[3])))


def engines_agree(rows: Rows) -> str:
    """Validation MRR by epoch, both engines, each seed."""
    own = [row for row in rows if row["experiment"] == "engines-agree"]
    seeds = sorted({row["seed"] for row in own})
    lines = []
    for setting in sorted({row["setting"] for row in own}, key=lambda text: (text.split("epoch ")[1], text)):
        cells = {row["seed"]: f"{float(row['value']):.5f}" for row in own if row["setting"] == setting}
        lines.append([setting, *(cells[seed] for seed in seeds)])
    return markdown(["", *(f"seed {seed}" for seed in seeds)], lines)


def speed_ranking(rows: Rows) -> str:
    """Seconds of filtered ranking."""
    own = [row for row in rows if row["metric"] == "ranking_seconds"]
    lines = [[row["setting"], row["model"], row["dim"], f"{float(row['value']):.3g}", row["device"]] for row in own]
    return markdown(["evaluator", "model", "d", "seconds", "device"], sorted(lines, key=lambda line: float(line[3])))


def lighter_state(rows: Rows) -> str:
    """Validation MRR by how the optimiser's state and the rows are kept."""
    own: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["experiment"] == "lighter-state":
            own.setdefault((row["dataset"], row["setting"].partition(";")[0]), []).append(float(row["value"]))
    lines = [
        [data, state, f"{statistics.fmean(values):.4f}", f"{statistics.stdev(values):.4f}"]
        for (data, state), values in own.items()
    ]
    return markdown(["data", "state", "MRR, mean of three seeds", "sd"], lines)


def speed_memory(rows: Rows) -> str:
    """Peak memory on the largest graph, by state."""
    own = [
        row for row in rows if row["metric"] == "peak_gb" and "1e+07" in row["dataset"] and "65536" in row["setting"]
    ]
    return markdown(["", "GB"], [[row["setting"], f"{float(row['value']):.1f}"] for row in own])


def speed_loading(rows: Rows) -> str:
    """Seconds from files to a graph."""
    own = by_setting([row for row in rows if row["metric"] in ("parse_seconds", "cached_seconds")], "bench-growth")
    lines = [[s, f"{c['parse_seconds']:.2f}", f"{c['cached_seconds']:.3f}"] for (_, s), c in own.items()]
    return markdown(["FB15k-237", "parsed, s", "from the cache, s"], lines)


def busy(rows: Rows) -> str:
    """Epochs beside other programs, by how waiting threads wait."""
    own: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "busy":
            side, beside = row["setting"].split("; ")
            what = f"{row['model']}, {row['objective']}, d {row['dim']}"
            own.setdefault((what, beside), {})[side] = float(row["value"])
    sides = ("shared cores", "always spinning", "never spinning", "one thread")
    lines = [
        [what, beside, *(f"{cell[side]:.3g}" for side in sides), f"{cell['shared cores'] / cell['one thread']:.2f}"]
        for (what, beside), cell in own.items()
    ]
    header = ["training", "beside", "as it is", "always spinning", "never spinning", "one thread", "to one thread"]
    return markdown(header, sorted(lines, key=lambda line: (line[0], BESIDE.index(line[1]))))


MOVED = ("bytes_rows", "bytes_sums", "bytes_relations", "bytes_per_step")


def sharded(rows: Rows) -> str:
    """Bytes that a process hands to collectives per step, and seconds per epoch, by objective."""
    own: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "sharded":
            name, _, place = row["setting"].partition("; ")
            where = f"{row['dataset']}, {row['model']} {row['dim']}, {place}, {row['device']}"
            own.setdefault((where, f"{row['objective']}, {name}"), {})[row["metric"]] = float(row["value"])
    lines = [
        [where, what, *(f"{cell[column] / 1e3:,.1f}" for column in MOVED), f"{cell['epoch_seconds']:.3g}"]
        for (where, what), cell in sorted(own.items(), key=lambda item: (item[0][0], item[1]["bytes_per_step"]))
    ]
    return markdown(["where", "objective", "rows, kB", "sums, kB", "relations, kB", "all, kB", "s an epoch"], lines)
