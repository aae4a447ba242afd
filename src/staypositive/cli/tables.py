"""What an evaluation found, as tables for people."""

from __future__ import annotations

from typing import Any

from staypositive.cli.console import Console

RANKING = {"mrr": "MRR", "mr": "MR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "amri": "AMRI"}
CLASSIFICATION = {
    "nll": "NLL",
    "brier": "Brier",
    "auc": "AUC",
    "average_precision": "AP",
    "ece": "ECE",
    "accuracy": "accuracy at ½",
    "accuracy_threshold": "accuracy, threshold from valid",
    "accuracy_relation_thresholds": "accuracy, a threshold per relation",
}
SIDES = {"both": "filtered", "tail": "tail prediction", "head": "head prediction"}


def evaluation_tables(console: Console, split: str, report: dict[str, Any], per_relation: bool = False) -> None:
    """Print what a report of `Run.evaluate` holds."""
    if "ranking" in report:
        _ranking(console, split, report["ranking"], per_relation)
    if "sampled_ranking" in report:
        _sampled(console, split, report["sampled_ranking"])
    if "classification" in report:
        _classification(console, split, report["classification"])


def _ranking(console: Console, split: str, report: dict[str, Any], per_relation: bool) -> None:
    filtered = report["filtered"]
    settings = {name: filtered["realistic"][side] for side, name in SIDES.items()}
    settings |= {f"{ties} ties": filtered[ties]["both"] for ties in ("optimistic", "pessimistic")}
    if "without_unseen" in report:
        settings["seen entities"] = report["without_unseen"]
    settings["raw"] = report["raw"]["realistic"]["both"]
    title = f"Ranking on {split}: {report['queries']:,} queries, filtered by {', '.join(report['filtered_by'])}"
    rows = [[name, *(found[metric] for metric in RANKING)] for name, found in settings.items()]
    console.table(title, ["", *RANKING.values()], rows)
    if per_relation:
        each = sorted(report["relations"].items(), key=lambda item: -item[1]["queries"])
        rows = [[name, found["queries"], *(found[metric] for metric in RANKING)] for name, found in each]
        title = f"Ranking on {split} by relation (filtered)"
        console.table(title, ["relation", "queries", *RANKING.values()], rows)


def _sampled(console: Console, split: str, report: dict[str, Any]) -> None:
    settings = {name: report["filtered"][side] for side, name in SIDES.items()} | {"raw": report["raw"]["both"]}
    rows = [[name, *(found[f"sampled_{metric}"] for metric in RANKING)] for name, found in settings.items()]
    title = (
        f"Sampled ranking on {split}: {report['queries']:,} queries, each against {report['candidates']:,} drawn "
        "entities; not to be compared with ranks among all"
    )
    console.table(title, ["", *(f"sampled {name}" for name in RANKING.values())], rows)


def _classification(console: Console, split: str, report: dict[str, Any]) -> None:
    """Print a column before and one after calibration."""
    columns = {
        f"{way}{name}": metrics
        for scope, name in (("all", ""), ("without_unseen", ", seen entities"))
        for way, metrics in report.get(scope, {}).items()
        if isinstance(metrics, dict)
    }
    rows = [[name, *(column.get(key) for column in columns.values())] for key, name in CLASSIFICATION.items()]
    console.table(f"Classification on {split}: {report['triples']:,} triples", ["", *columns], rows)
