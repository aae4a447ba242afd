"""Tables of what the library works with."""

from __future__ import annotations

import statistics

from experiments.tables.common import Rows, markdown


def pykeen_side(rows: Rows) -> str:
    """PyKEEN's DistMult by loop and loss: MRR's mean and deviation over seeds, the median of the rest."""
    own: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in rows:
        if row["experiment"] == "pykeen-side":
            cell = own.setdefault(row["setting"].partition(";")[0], {})
            cell.setdefault((row["metric"], row["calibration"]), []).append(float(row["value"]))
    lines = []
    for name, cell in own.items():
        mrr = cell["mrr", ""]
        shown = [("nll", "uncalibrated"), ("nll", "platt"), ("auc", "platt"), ("epoch_seconds", "")]
        spread = f" ± {statistics.stdev(mrr):.3f}" if len(mrr) > 1 else ""
        middle = [f"{statistics.median(cell[place]):.3f}" for place in shown]
        lines.append([name, f"{statistics.fmean(mrr):.3f}{spread}", *middle])
    return markdown(["training", "MRR", "NLL", "NLL, Platt", "AUC", "s an epoch"], lines)


def pykeen_side_setting(rows: Rows) -> str:
    """What all rows of the table have in common."""
    own = [row for row in rows if row["experiment"] == "pykeen-side"]
    said = sorted(
        {(r["dataset"], r["dim"], r["setting"].partition("; ")[2], r["device"], r["commit"][:10]) for r in own}
    )
    return markdown(["data", "d", "setting", "device", "commit"], [list(line) for line in said])


def service(rows: Rows) -> str:
    """Latencies and rates of the service, and of files of queries."""
    own: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "service":
            key = (row["dataset"], row["model"], row["dim"], row["setting"])
            own.setdefault(key, {})[row["metric"]] = float(row["value"])
    lines = []
    for (dataset, model, dim, setting), cell in own.items():
        rate = cell.get("requests_per_second", cell.get("file_queries_per_second", 0.0))
        times = [
            f"{cell[name]:.1f}" if name in cell else "" for name in ("latency_p50", "latency_p95", "latency_p99")
        ]
        lines.append([f"{dataset}, {model} {dim}: {setting}", *times, f"{rate:,.0f}"])
    return markdown(["", "p50, ms", "p95, ms", "p99, ms", "answered a second"], lines)
