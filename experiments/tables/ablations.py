"""Tables of the ablations: a chosen setting of Table 2, changed in one way."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable

from experiments.paper.paper import load_paper
from experiments.tables.common import Rows, markdown

DATASETS = {"WN18AM": "mrr", "FB15k-237AM": "mrr", "WN11": "nll", "FB13": "nll"}
"""What a dataset's runs are judged by."""
HEADER = [f"{name}, {metric.upper()}" for name, metric in DATASETS.items()]

Figures = dict[tuple[str, str, str], dict[str, float]]
"""Means over seeds by (dataset, row of Table 2, variant), then by metric."""


def figures(rows: Rows) -> Figures:
    """Collect the ablations' figures."""
    names = {(cell.model, cell.objective): cell.name for cell in load_paper().table2}
    own: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["experiment"] == "ablations":
            place = row["dataset"], names[row["model"], row["objective"]], row["setting"].partition(";")[0]
            own.setdefault(place, {}).setdefault(row["metric"], []).append(float(row["value"]))
    return {place: {metric: statistics.fmean(v) for metric, v in found.items()} for place, found in own.items()}


def pairs(
    rows: Rows, group: str, values: tuple[object, object], names: Iterable[str], datasets: Iterable[str] = DATASETS
) -> dict[tuple[str, str], tuple[float, float]]:
    """What rows of Table 2 reach with the first of two values and with the second, by dataset and row."""
    own, found = figures(rows), {}
    for dataset, name in itertools.product(datasets, names):
        first, second = (own.get((dataset, name, f"{group}: {group} {value}")) for value in values)
        if first and second:
            found[dataset, name] = first[DATASETS[dataset]], second[DATASETS[dataset]]
    return found


def compared(found: dict[tuple[str, str], tuple[float, float]], *values: str) -> str:
    """Two values side by side, and the change."""
    lines = [
        [dataset, name, DATASETS[dataset].upper(), f"{one:.3f}", f"{other:.3f}", f"{other / one - 1:+.1%}"]
        for (dataset, name), (one, other) in found.items()
    ]
    return markdown(["data", "model", "measured by", *values, "change"], lines)


def dropout(rows: Rows) -> str:
    """Every row of Table 2 with dropout 0.4 and without."""
    found = pairs(rows, "dropout", (0.4, 0.0), ("DistMult", "SimplE", "spDistMult", "spSimplE"))
    return compared(found, "dropout 0.4", "dropout 0")


def variants(rows: Rows, *groups: str, reached: bool = False) -> str:
    """The variants of spDistMult in some groups; with the mean log-odds and probability of all triples if asked."""
    own, lines = figures(rows), []
    for group in groups:
        for place in sorted({place for _, name, place in own if name == "spDistMult"}, key=_numeric):
            if place.partition(":")[0] == group:
                cells = [
                    _cell(own.get((data, "spDistMult", place), {}), DATASETS[data], reached) for data in DATASETS
                ]
                lines.append([place.partition(": ")[2].replace("_", " "), *cells])
    return markdown(["spDistMult", *HEADER], lines)


def scope(rows: Rows) -> str:
    """The penalty over the batch's rows and over all."""
    return compared(pairs(rows, "scope", ("batch", "all"), ("spDistMult", "spSimplE")), "batch", "all")


def paper_and_code(rows: Rows) -> str:
    """What each difference between the paper and its authors' code does to spDistMult's numbers."""
    own, lines = figures(rows), []
    for said, place in (
        ("penalty divided by the batches (code)", "weighting: weighting authors"),
        ("penalty whole in each batch (paper)", "weighting: weighting paper"),
        ("p = 1 (both)", "power: power 1"),
        ("p = 2, the square (an option of the code)", "power: power 2"),
        ("accumulator from 0.1 (code)", "accumulator: accumulator 0.1"),
        ("accumulator from 0 (not said in the paper)", "accumulator: accumulator 1e-10"),
        ("weights within ±0.42, 6/√d for d 200 (code)", "start: init_scale 0.42"),
        ("weights within ±0.1", "start: init_scale 0.1"),
        ("weights within ±0.01", "start: init_scale 0.01"),
    ):
        cells = [_cell(own.get((data, "spDistMult", place), {}), metric) for data, metric in DATASETS.items()]
        lines.append([said, *cells])
    return markdown(["spDistMult", *HEADER], lines)


def dropout_at_test(rows: Rows) -> str:
    """MRR of models trained with dropout 0.4, ranked without it and with it."""
    lines = [
        [dataset, name, f"{found['mrr']:.3f}", f"{found['mrr_dropout_at_test']:.3f}",
         f"{found['mrr_dropout_at_test'] / found['mrr'] - 1:+.1%}"]
        for (dataset, name, place), found in sorted(figures(rows).items())
        if place == "dropout: dropout 0.4" and "mrr_dropout_at_test" in found
    ]  # fmt: skip
    return markdown(["data", "model", "off, MRR", "left on, MRR", "change"], lines)


def _cell(found: dict[str, float], metric: str, reached: bool = False) -> str:
    if not found:
        return ""
    beside = f" ({found['mean_logit']:+.2f}, {found['mean_probability']:.3f})" if reached else ""
    return f"{found[metric]:.3f}{beside}" if metric in found else f"diverged{beside}"


def _numeric(place: str) -> tuple[str, float, str]:
    """Sort variants by their number where they have one."""
    text = place.rpartition(" ")[2]
    try:
        return place.partition(":")[0], float(text), ""
    except ValueError:
        return place.partition(":")[0], 0.0, text
