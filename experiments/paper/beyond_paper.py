"""Figures beyond the paper: second moments' ranking, reliability and NLL, from committed results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.artifacts import NULL_WAYS, Artifact
from experiments.paper.paper import load_paper, published_by_others
from experiments.plots import pyplot, save_figure
from experiments.store import Row, read_results
from staypositive.evaluation import reliability_bins

Floats = NDArray[np.float64]
COIN = math.log(2)
"""The NLL of ½ for everything."""
ORANGE, SKY, GREEN, BLUE, GREY, INK = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#BBBBBB", "#222222"
"""Of Okabe and Ito, told apart by every kind of eye."""
ELSEWHERE = "published by others"
KINDS = {
    "second moments, no negative drawn": (BLUE, ""),
    "stay-positive, no negative drawn": (SKY, ""),
    "negative sampling": (ORANGE, "///"),
    "fitted to facts alone": (BLUE, ""),
    "fitted to labels too": (ORANGE, "///"),
    ELSEWHERE: (GREY, ""),
}
"""Colour and hatch of each kind of bar."""
DIAMOND = {"linestyle": "", "marker": "D", "markersize": 4.5, "color": "white", "markeredgecolor": INK}
SHOWN = {"posterior": (BLUE, "o"), "null-logistic": (ORANGE, "s"), "platt": (GREEN, "^")}
"""The calibrations that a reliability diagram shows."""
FEWEST = 100
JOINED_RUNS = "second-moment-joined"
FIGURES: dict[str, tuple[str, ...]] = {
    "beyond-paper-ranking": ("WN18AM", "FB15k-237AM"),
    "beyond-paper-ranking-published": ("WN18RR", "FB15k-237", "CoDEx-S"),
    "beyond-paper-reliability": ("WN11", "FB13", "CoDEx-S"),
    "beyond-paper-nll": ("WN11", "FB13", "CoDEx-S"),
}
"""The datasets that each figure has panels for."""


@dataclass(frozen=True)
class Bar:
    """One system on one dataset: its figure from each seed."""

    name: str
    kind: str
    values: tuple[float, ...]
    published: float | None = None
    """What the paper prints for it."""

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """The deviation over seeds, 0 where there is one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


def plot_beyond_paper(results: Path, folder: Path) -> list[Path]:
    """Draw every figure that the results hold something for; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, made = read_results(results), []
    for name, datasets in FIGURES.items():
        path = folder / f"{name}.png"
        if name == "beyond-paper-reliability":
            kept = {dataset: list(_backgrounds(results, rows, dataset)) for dataset in datasets}
            drawn = plot_reliability(kept, path)
        elif name == "beyond-paper-nll":
            bars = {dataset: nll_bars(rows, dataset) for dataset in datasets}
            drawn = plot_bars(bars, "NLL of labelled test triples: less is better", path, COIN)
        else:
            bars = {dataset: ranking_bars(rows, dataset) for dataset in datasets}
            drawn = plot_bars(bars, "filtered MRR of the test facts: more is better", path)
        made += [path] if drawn else []
    return made


def ranking_bars(rows: Sequence[Row], dataset: str) -> list[Bar]:
    """Return MRR on a dataset, worst first: the paper's models, second moments, and what others published."""
    plain = [
        row
        for row in rows
        if (row["dataset"], row["metric"], row["filter"]) == (dataset, "mrr", "filtered")
        and (row["ties"], row["side"]) == ("realistic", "both")
    ]
    bars = []
    for cell in load_paper().table2:
        own = [r for r in plain if (r["experiment"], r["model"], r["objective"]) == _key(cell)]
        kind = "negative sampling" if cell.objective == "negative-sampling" else "stay-positive, no negative drawn"
        if own and cell.dataset == dataset:
            bars.append(Bar(cell.name, kind, _values(own), dict(cell.published).get("mrr")))
    for experiment, name in (("second-moment", "second moment, ComplEx"), (JOINED_RUNS, "second moment, joined")):
        own = [row for row in plain if row["experiment"] == experiment]
        if own:
            bars.append(Bar(name, "second moments, no negative drawn", _values(own)))
    return _ordered(bars, "ranking", dataset, "mrr")


def nll_bars(rows: Sequence[Row], dataset: str) -> list[Bar]:
    """Return NLL on a dataset by calibration, worst first, and what others published."""
    bars = []
    wanted = [("second-moment", way, way) for way in NULL_WAYS]
    wanted += [(JOINED_RUNS, way, f"{way}, joined") for way in ("posterior", "null-logistic")]
    for experiment, way, name in wanted:
        place = experiment, dataset, way, "nll"
        own = [r for r in rows if (r["experiment"], r["dataset"], r["calibration"], r["metric"]) == place]
        if own:
            kind = "fitted to facts alone" if way == "posterior" else "fitted to labels too"
            bars.append(Bar(name, kind, _values(own)))
    return _ordered(bars, "probabilities", dataset, "nll")


def _key(cell: Any) -> tuple[str, str, str]:
    return "table2", cell.model, cell.objective


def _values(rows: Sequence[Row]) -> tuple[float, ...]:
    return tuple(float(row["value"]) for row in rows)


def _ordered(bars: list[Bar], kind: str, dataset: str, metric: str) -> list[Bar]:
    """Put published figures among the bars, and the best at the end; nothing where none is ours."""
    others = [
        Bar(other["system"], ELSEWHERE, (float(other[dataset][metric]),))
        for other in published_by_others(kind)
        if metric in other.get(dataset, {})
    ]
    every = [*bars, *others] if bars else []
    return sorted(every, key=lambda bar: bar.mean, reverse=metric == "nll")


def _backgrounds(results: Path, rows: Sequence[Row], dataset: str) -> Iterator[Artifact]:
    """Yield the scores of the second-moment runs on a dataset, a seed each."""
    own = ("second-moment", dataset, "posterior")
    files = {row["file"] for row in rows if (row["experiment"], row["dataset"], row["calibration"]) == own}
    for file in sorted(files - {""}):
        yield Artifact.read(results / file)


def plot_bars(panels: Mapping[str, Sequence[Bar]], label: str, path: Path, line: float | None = None) -> bool:
    """Draw a panel a dataset, one below the other, the best bar at the top; return whether there was any."""
    panels = {dataset: bars for dataset, bars in panels.items() if bars}
    if not panels:
        return False
    plt = pyplot()
    sizes = [len(bars) for bars in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(7.2, 0.29 * sum(sizes) + 0.45 * len(panels) + 1.0), sharex=True, squeeze=False,
        gridspec_kw={"height_ratios": [size + 0.6 for size in sizes]}, layout="constrained",
    )  # fmt: skip
    for axis, (dataset, bars) in zip(axes[:, 0], panels.items(), strict=True):
        _bars(axis, bars)
        axis.set_title(dataset, fontsize=10, fontweight="bold", loc="left")
        if line is not None:
            axis.axvline(line, color=INK, linewidth=0.9, linestyle="--")
    top = max(bar.mean for bars in panels.values() for bar in bars)
    axes[-1, 0].set_xlim(0, max(1.12 * top, line or 0.0))
    axes[-1, 0].set_xlabel(label)
    _legend(figure, plt, [bar for bars in panels.values() for bar in bars], line)
    save_figure(figure, path, dpi=140)
    return True


def _bars(axis: Any, bars: Sequence[Bar]) -> None:
    places = range(len(bars))
    for place, bar in zip(places, bars, strict=True):
        colour, hatch = KINDS[bar.kind]
        axis.barh(place, bar.mean, height=0.72, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4)
        if len(bar.values) > 1:
            axis.errorbar(bar.mean, place, xerr=bar.deviation, color=INK, elinewidth=1, capsize=2)
        if bar.published is not None:
            axis.plot(bar.published, place, **DIAMOND, zorder=4)
        end = (max(bar.mean + bar.deviation, bar.published or 0.0), place)
        weight = "bold" if colour == BLUE else "normal"
        axis.annotate(
            f"{bar.mean:.3f}", end, (6, 0), textcoords="offset points", va="center", fontsize=8, weight=weight
        )
    axis.set_yticks(places, [bar.name for bar in bars], fontsize=8)
    axis.set_ylim(-0.6, len(bars) - 0.4)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)


def _legend(figure: Any, plt: Any, bars: Sequence[Bar], line: float | None) -> None:
    kinds = [kind for kind in KINDS if kind in {bar.kind for bar in bars}]
    handles = [
        plt.Rectangle((0, 0), 1, 1, facecolor=KINDS[kind][0], hatch=KINDS[kind][1], edgecolor="white", label=kind)
        for kind in kinds
    ]
    if any(bar.published is not None for bar in bars):
        handles.append(plt.Line2D([], [], label="as the paper prints it", **DIAMOND))
    if line is not None:
        handles.append(plt.Line2D([], [], color=INK, linewidth=0.9, linestyle="--", label="a coin"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=8, frameon=False)


def plot_reliability(panels: Mapping[str, Sequence[Artifact]], path: Path, bins: int = 15) -> bool:
    """Draw reliability curves of some calibrations, a column a dataset, and below them where triples lie.

    Bins of fewer than `FEWEST` triples have no place on a curve: their share is chance.
    """
    panels = {dataset: kept for dataset, kept in panels.items() if kept}
    if not panels:
        return False
    figure, axes = pyplot().subplots(
        2, len(panels), figsize=(3.2 * len(panels) + 0.5, 4.9), squeeze=False, sharex=True, sharey="row",
        gridspec_kw={"height_ratios": [2.8, 1]}, layout="constrained",
    )  # fmt: skip
    for column, (dataset, kept) in enumerate(panels.items()):
        curve, share = axes[:, column]
        curve.plot([0, 1], [0, 1], color="#888888", linewidth=0.9, linestyle="--", label="as stated")
        for way, (colour, marker) in SHOWN.items():
            stated, true, triples = pooled_bins(kept, way, bins)
            enough = triples >= FEWEST
            label = f"{way} ({'facts alone' if way == 'posterior' else 'labels'})"
            style = {"color": colour, "marker": marker, "linewidth": 1.3, "clip_on": False}
            curve.plot(stated[enough], true[enough], markersize=4.5, label=label, **style)
            share.plot(stated, triples / triples.sum(), markersize=3, **style)
        curve.set_title(dataset, fontsize=10, fontweight="bold")
        curve.set(xlim=(0, 1), ylim=(0, 1))
        share.set(xlabel="stated probability", ylim=(0, None))
        for axis in (curve, share):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("share that is true")
    axes[1, 0].set_ylabel("share of triples")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    figure.get_layout_engine().set(wspace=0.06)  # the last tick of a panel keeps off the first of the next
    save_figure(figure, path, dpi=140)
    return True


def pooled_bins(kept: Sequence[Artifact], way: str, bins: int = 15) -> tuple[Floats, Floats, Floats]:
    """Return stated probability, true share and count of each filled bin, over the test triples of all seeds."""
    each = [reliability_bins(one.calibrated(way)[0], one.arrays["test_signs"], bins) for one in kept]
    stated, true, triples = (np.sum(part, axis=0) for part in zip(*each, strict=True))
    filled = triples > 0
    return stated[filled] / triples[filled], true[filled] / triples[filled], triples[filled]
