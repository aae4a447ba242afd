"""Tables of the datasets and of first runs."""

from __future__ import annotations

from experiments.tables.common import Rows, markdown
from staypositive.graph import CATALOGUE


def datasets(_: Rows) -> str:
    """The catalogue's counts."""
    names = ("entities", "relations", "train", "valid", "test")
    return markdown(["dataset", *names], [[d.name, *(f"{d.counts[n]:,}" for n in names)] for d in CATALOGUE.values()])


def first_runs(rows: Rows, metrics: dict[str, tuple[str, str]], wanted: tuple[str, ...]) -> str:
    """One line a dataset and model; `metrics` maps a heading to (metric, calibration)."""
    own = [row for row in rows if row["experiment"] == "first-runs" and row["dataset"] in wanted]
    lines = []
    for dataset in wanted:
        for model in dict.fromkeys(row["model"] for row in own if row["dataset"] == dataset):
            cells = []
            for metric, calibration in metrics.values():
                values = [
                    row["value"]
                    for row in own
                    if (row["dataset"], row["model"], row["metric"]) == (dataset, model, metric)
                    and row["calibration"] == calibration
                    and row["unseen"] in ("", "with")
                    and (row["side"], row["filter"], row["ties"]) in (("", "", ""), ("both", "filtered", "realistic"))
                ]
                cells.append(f"{float(values[0]):.3f}" if values else "")
            lines.append([f"{dataset}, {model}", *cells])
    return markdown(["", *metrics], lines)


def first_runs_ranking(rows: Rows) -> str:
    """Speed and filtered realistic ranking of the AM sets."""
    metrics = {
        "s an epoch": ("epoch_seconds", ""),
        "MRR": ("mrr", ""),
        "Hits@1": ("hits@1", ""),
        "Hits@10": ("hits@10", ""),
        "AMRI": ("amri", ""),
    }
    return first_runs(rows, metrics, ("WN18AM", "FB15k-237AM"))


def first_runs_classification(rows: Rows) -> str:
    """Speed and classification of WN11 and FB13, before and after Platt scaling."""
    metrics = {
        "s an epoch": ("epoch_seconds", ""),
        "NLL": ("nll", "uncalibrated"),
        "Brier": ("brier", "uncalibrated"),
        "AUC": ("auc", "uncalibrated"),
        "ECE": ("ece", "uncalibrated"),
        "NLL, Platt": ("nll", "platt"),
        "Brier, Platt": ("brier", "platt"),
        "ECE, Platt": ("ece", "platt"),
    }
    return first_runs(rows, metrics, ("WN11", "FB13"))


def first_runs_settings(rows: Rows) -> str:
    """The settings, machine and commands behind the tables."""
    own = [row for row in rows if row["experiment"] == "first-runs"]
    seen = sorted({(r["model"], r["dim"], r["setting"], r["device"], r["commit"][:10], r["command"]) for r in own})
    return markdown(["model", "dim", "setting", "device", "commit", "command"], [[*s[:5], f"`{s[5]}`"] for s in seen])
