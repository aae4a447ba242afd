"""Tables of what goes beyond the paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from experiments.paper.paper import load_paper, published_by_others
from experiments.store import Row
from experiments.tables.common import Rows, markdown, seeds

RANKING_COLUMNS = ("mrr", "hits@1", "hits@10")


PROBABILITY_COLUMNS = ("nll", "brier", "ece", "auc", "accuracy_relation_thresholds")


def second_moment_until(rows: Rows) -> str:
    """Seconds of training to an MRR, one line per seed."""
    own: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "second-moment-until":
            own.setdefault(row["seed"], {})[row["metric"]] = float(row["value"])
    lines = [
        [seed, *(f"{f['seconds']:.1f} {f['first_epoch_seconds']:.1f} {f['epochs']:.0f} {f['mrr']:.3f}".split())]
        for seed, f in sorted(own.items())
    ]
    return markdown(["seed", "seconds of training", "of them the first epoch's", "epochs", "validation MRR"], lines)


JOINED = {"second-moment": "", "second-moment-joined": ", joined"}
"""What an experiment's lines are told apart by."""
Figures = dict[tuple[str, str, str], dict[str, list[float]]]


def _figures(rows: Rows, wanted: Callable[[Row], bool]) -> Figures:
    """The figures of second moments by dataset, calibration, and whether joined; then by metric, one per seed."""
    own: Figures = {}
    for row in rows:
        if row["experiment"] in JOINED and wanted(row):
            figures = own.setdefault((row["dataset"], row["calibration"], JOINED[row["experiment"]]), {})
            figures.setdefault(row["metric"], []).append(float(row["value"]))
    return own


def _by_setting(rows: Rows, experiment: str) -> dict[tuple[str, str, str], dict[str, list[float]]]:
    """The figures of an experiment by dataset and two parts of the setting, then by metric, one per seed."""
    own: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            first, second, *_ = row["setting"].split("; ")
            own.setdefault((row["dataset"], first, second), {}).setdefault(row["metric"], []).append(
                float(row["value"])
            )
    return own


def spread(rows: Rows) -> str:
    """What `gram_update_interval` does to validation MRR and to the seconds of an epoch."""
    own = _by_setting(rows, "spread").items()
    found = {(data, int(steps.split()[1].rstrip(","))): cell for (data, steps, _), cell in own}
    lines = [
        [data, str(steps), seeds(cell["mrr"]), seeds(cell["epoch_cpu_seconds"])]
        for (data, steps), cell in sorted(found.items())
    ]
    return markdown(["data", "`gram_update_interval`", "validation MRR", "CPU seconds, shortest epoch"], lines)


def als(rows: Rows) -> str:
    """Alternating least squares and gradient steps, after some passes each."""
    found = {(way, int(after.split()[0])): cell for (_, way, after), cell in _by_setting(rows, "als").items()}
    lines = [
        [way, str(passes), seeds(cell["mrr"]), f"{statistics.fmean(cell['cpu_seconds']):.1f}"]
        for (way, passes), cell in sorted(found.items())
    ]
    return markdown(["", "passes", "validation MRR", "CPU seconds"], lines)


def second_moment_ranking(rows: Rows) -> str:
    """Our filtered realistic ranking beside published figures, dataset by dataset."""

    def is_plain(row: Row) -> bool:
        return (row["filter"], row["ties"], row["side"]) == ("filtered", "realistic", "both")

    lines = []
    found = sorted(_figures(rows, is_plain).items())
    for place, ((dataset, _, joined), figures) in enumerate(found):
        ours = [seeds(figures[name]) for name in ("mrr", "hits@1", "hits@10")]
        lines.append([f"**{dataset}**: second moment, no negatives{joined}", *ours, "here"])
        is_last = place + 1 == len(found) or found[place + 1][0][0] != dataset
        for other in published_by_others("ranking"):
            if dataset in other and is_last:
                theirs = [f"{other[dataset][name]:.3f}" if name in other[dataset] else "" for name in RANKING_COLUMNS]
                lines.append([f"{dataset}: {other['system']}", *theirs, other["source"]])
    return markdown(["", "MRR", "Hits@1", "Hits@10", "source"], lines)


def second_moment_probabilities(rows: Rows) -> str:
    """Our classification by calibration beside published figures."""
    lines = []
    for (dataset, way, joined), figures in sorted(_figures(rows, lambda row: bool(row["calibration"])).items()):
        ours = _probabilities(figures, way)
        unseen = " (no negative label)" if way == "posterior" else ""
        lines.append([f"**{dataset}**{joined}: {way}{unseen}", *ours, "here"])
    for other in published_by_others("probabilities"):
        for dataset in ("FB13", "WN11"):
            if dataset in other:
                found = other[dataset]
                theirs = [f"{found[name]:.3f}" if name in found else "" for name in PROBABILITY_COLUMNS]
                lines.append([f"{dataset}: {other['system']}", *theirs, other["source"]])
    return markdown(["", "NLL", "Brier", "ECE", "AUC", "accuracy, thresholds by relation", "source"], lines)


def _probabilities(figures: dict[str, list[float]], way: str) -> list[str]:
    """The columns of one calibration; the thresholds of accuracy are labelled, so that label-free rows have none."""
    shown = [
        name for name in PROBABILITY_COLUMNS if name in figures and (way != "posterior" or "accuracy" not in name)
    ]
    return [seeds(figures[name]) if name in shown else "" for name in PROBABILITY_COLUMNS]


def paper_probabilities(rows: Rows) -> str:
    """The same calibrations on the paper's models."""
    names = {(cell.model, cell.objective): cell.name for cell in load_paper().table2}
    own: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["experiment"] == "background":
            place = row["dataset"], names[row["model"], row["objective"]], row["calibration"]
            own.setdefault(place, {}).setdefault(row["metric"], []).append(float(row["value"]))
    lines = [
        [f"{dataset}, {name}: {way}{' (no negative label)' if way == 'posterior' else ''}",
         *_probabilities(found, way)]
        for (dataset, name, way), found in sorted(own.items())
    ]  # fmt: skip
    return markdown(["", "NLL", "Brier", "ECE", "AUC", "accuracy, thresholds by relation"], lines)


def defaults(rows: Rows) -> str:
    """What a user gets who sets nothing, beside the paper's objective."""
    own: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "defaults":
            what = f"{row['setting'].split(';')[0]}: {row['model']} {row['dim']}, {row['objective']}"
            own.setdefault((row["dataset"], what, row["device"]), {})[row["metric"]] = float(row["value"])
    lines = [
        [dataset, what, f"{cell['mrr']:.3f}", f"{cell['training_seconds']:.0f}", f"{cell['epochs']:.0f}"]
        for (dataset, what, _), cell in sorted(own.items())
    ]
    return markdown(["data", "set", "test MRR", "seconds", "epochs"], lines)


def conformal_joined(rows: Rows) -> str:
    """The same of joined models."""
    return conformal([row | {"experiment": "conformal"} for row in rows if row["experiment"] == "conformal-joined"])


def conformal(rows: Rows) -> str:
    """Prediction sets: whether they hold the true answer as often as promised, and how large they are."""
    own: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["experiment"] == "conformal" and row["side"] == "both":
            figures = own.setdefault((row["dataset"], row["setting"].split(";")[0]), {})
            figures.setdefault(row["metric"], []).append(float(row["value"]))
    lines = []
    for (dataset, promise), figures in sorted(own.items()):
        nominal, count = float(promise.split()[1].rstrip(",")), statistics.fmean(figures["queries"])
        off = 1.96 * math.sqrt(nominal * (1 - nominal) / count)
        sizes = [f"{statistics.fmean(figures[name]):,.1f}" for name in ("mean_size", "median_size")]
        within = f"{nominal - off:.3f} to {nominal + off:.3f}"
        lines.append([f"**{dataset}**: {promise}", seeds(figures["coverage"]), within, *sizes, "here"])
        if promise == "coverage 0.9, marginal":
            lines += [
                [f"{dataset}: {other['system']}", "", "", f"{other[dataset]['mean_size']:,.0f}", "", other["source"]]
                for other in published_by_others("sets")
                if dataset in other
            ]
    return markdown(["", "held", "95% of chance", "mean size", "median", "source"], lines)


def recommender(rows: Rows) -> str:
    """How well each ranks held-out likes."""
    own: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "recommender":
            own.setdefault(row["model"], {})[row["metric"]] = float(row["value"])
    said = {
        "popularity": "popularity",
        "iALS": "iALS: the same loss with L2, by alternating least squares",
        "second moment": "second moment, by gradient steps",
        "the truth": "the true chances: no recommender can do better",
    }
    lines = [[said[name], f"{own[name]['recall@20']:.3f}", f"{own[name]['NDCG@100']:.3f}"] for name in said]
    return markdown(["", "recall@20", "NDCG@100"], lines)


def recommender_probabilities(rows: Rows) -> str:
    """What the recommender states, and what is true."""
    own = {row["metric"]: float(row["value"]) for row in rows if row["experiment"] == "recommender"}
    lines = [
        ["the five best items of 100 users: stated probability, mean", f"{own['said']:.3f}"],
        ["the same items: true chance, mean", f"{own['true']:.3f}"],
        ["held-out likes inside their prediction sets at 80%", f"{own['coverage']:.1%}"],
        ["items in such a set, median", f"{own['median_size']:,.0f}"],
    ]
    return markdown(["", ""], lines)


def new_entities(rows: Rows) -> str:
    """MRR of entities that were folded in, beside those trained with."""
    own: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "new-entities" and row["metric"] in ("mrr", "chance"):
            side, _, epochs = row["setting"].partition("; ")
            key = (row["dataset"], f"{row['objective']}, {row['model']}, dim {row['dim']}, {epochs}")
            own.setdefault(key, {})[side if row["metric"] == "mrr" else "chance"] = float(row["value"])
    lines = [
        [*key, *(f"{found[name]:.3f}" for name in ("folded in", "trained with them", "chance"))]
        for key, found in own.items()
    ]
    return markdown(["data", "objective, model", "folded in, MRR", "trained with, MRR", "chance"], lines)
