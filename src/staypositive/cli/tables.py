"""Metrics as tables for people."""

from __future__ import annotations

from typing import Any

from staypositive.cli.common import Speaker

_RANKING = ("mrr", "mr", "hits@1", "hits@3", "hits@10", "amri")
_RANKING_NAMES = ("MRR", "MR", "Hits@1", "Hits@3", "Hits@10", "AMRI")
_CLASSIFICATION = {
    "nll": "NLL",
    "brier": "Brier",
    "auc": "AUC",
    "average_precision": "AP",
    "ece": "ECE",
    "accuracy": "accuracy at ½",
    "accuracy_threshold": "accuracy, threshold from valid",
    "accuracy_relation_thresholds": "accuracy, one for each relation",
}


def ranking_table(speaker: Speaker, split: str, report: dict[str, Any], per_relation: bool = False) -> None:
    """Print the ranking metrics: filtered first, then the other readings beside it."""
    rows: list[list[Any]] = []
    plain = report["filtered"]["realistic"]
    for side in ("both", "tail", "head"):
        rows.append([f"{side} asked" if side != "both" else "filtered", *(plain[side][m] for m in _RANKING)])
    for ties in ("optimistic", "pessimistic"):
        rows.append([f"{ties} ties", *(report["filtered"][ties]["both"][m] for m in _RANKING)])
    if "without_unseen" in report:
        rows.append(["seen entities", *(report["without_unseen"][m] for m in _RANKING)])
    rows.append(["raw", *(report["raw"]["realistic"]["both"][m] for m in _RANKING)])
    filtered_by = ", ".join(report["filtered_by"])
    title = f"Ranking on {split}: {report['queries']:,} queries, filtered by {filtered_by}"
    speaker.table(title, ["", *_RANKING_NAMES], rows)
    if per_relation:
        each = sorted(report["relations"].items(), key=lambda item: -item[1]["queries"])
        lines = [[name, m["queries"], *(m[key] for key in _RANKING)] for name, m in each]
        speaker.table(f"Ranking on {split} by relation (filtered)", ["relation", "queries", *_RANKING_NAMES], lines)


def sampled_table(speaker: Speaker, split: str, report: dict[str, Any]) -> None:
    """Print metrics of ranks among drawn entities."""
    rows = [
        [name, *(report[setting][side][f"sampled_{m}"] for m in _RANKING)]
        for name, setting, side in (
            ("filtered", "filtered", "both"), ("tail asked", "filtered", "tail"), ("head asked", "filtered", "head"),
            ("raw", "raw", "both"),
        )
    ]  # fmt: skip
    title = (
        f"Sampled ranking on {split}: {report['queries']:,} queries, each against {report['candidates']:,} drawn "
        "entities; not to be compared with ranks among all"
    )
    speaker.table(title, ["", *(f"sampled {name}" for name in _RANKING_NAMES)], rows)


def classification_table(speaker: Speaker, split: str, report: dict[str, Any]) -> None:
    """Print the classification metrics, a column before and one after calibration."""
    columns = {
        f"{way}{name}": metrics
        for scope, name in (("all", ""), ("without_unseen", ", seen entities"))
        for way, metrics in report.get(scope, {}).items()
        if isinstance(metrics, dict)
    }
    rows = [[name, *(column.get(key) for column in columns.values())] for key, name in _CLASSIFICATION.items()]
    title = f"Classification on {split}: {report['triples']:,} triples"
    speaker.table(title, ["", *columns], rows)


def evaluation_tables(speaker: Speaker, split: str, report: dict[str, Any], per_relation: bool = False) -> None:
    """Print whatever an evaluation has."""
    if "ranking" in report:
        ranking_table(speaker, split, report["ranking"], per_relation)
    if "sampled_ranking" in report:
        sampled_table(speaker, split, report["sampled_ranking"])
    if "classification" in report:
        classification_table(speaker, split, report["classification"])


def frame_rows(frame: Any) -> list[list[Any]]:
    """Return a DataFrame's rows as plain Python values."""
    return [[getattr(cell, "item", lambda cell=cell: cell)() for cell in row] for row in frame.to_numpy(dtype=object)]
