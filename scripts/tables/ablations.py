"""Tables of the ablations: a chosen setting of Table 2, changed in one way."""

from __future__ import annotations

import statistics

from staypositive.experiments.paper import load_paper
from tables.common import Rows, markdown

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


def dropout(rows: Rows) -> str:
    """Every row of Table 2 with dropout 0.4 and without."""
    own, lines = figures(rows), []
    for dataset, metric in DATASETS.items():
        for name in ("DistMult", "SimplE", "spDistMult", "spSimplE"):
            pair = [own.get((dataset, name, f"dropout: dropout {value}")) for value in (0.4, 0.0)]
            if pair[0] and pair[1]:
                with_it, without = pair[0][metric], pair[1][metric]
                change = f"{without / with_it - 1:+.1%}"
                lines.append([dataset, name, metric.upper(), f"{with_it:.3f}", f"{without:.3f}", change])
    return markdown(["data", "model", "measured by", "dropout 0.4", "dropout 0", "change"], lines)


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
    own, lines = figures(rows), []
    for name in ("spDistMult", "spSimplE"):
        for dataset, metric in DATASETS.items():
            pair = [own.get((dataset, name, f"scope: scope {value}")) for value in ("batch", "all")]
            if pair[0] and pair[1]:
                batch, every = pair[0][metric], pair[1][metric]
                change = f"{every / batch - 1:+.1%}"
                lines.append([dataset, name, metric.upper(), f"{batch:.3f}", f"{every:.3f}", change])
    return markdown(["data", "model", "measured by", "batch", "all", "change"], lines)


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
