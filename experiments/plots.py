"""Plots of benchmark figures; only this module imports matplotlib."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from staypositive.errors import InputError
from staypositive.files import write_atomic


def pyplot() -> Any:
    """Return matplotlib's pyplot, drawing to files; an error says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("plots need matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure as PNG, whole or not at all, and close it."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi)
    write_atomic(path, stream.getvalue())
    pyplot().close(figure)


def label_ticks(axis: Any, values: list[int]) -> None:
    """Put ticks at the measured values of a logarithmic axis, written out."""
    axis.set_xticks(values, [f"{value:,}" for value in values])
    axis.minorticks_off()


def plot_figures(figures: list[dict[str, Any]], folder: str | os.PathLike[str]) -> list[Path]:
    """Draw epoch time by engine, and the sum of all scores against |E|; return the files."""
    plt = pyplot()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    timed = [f for f in figures if "epoch_seconds" in f]
    made = []
    if timed:
        names = [_label(figure) for figure in timed]
        figure, axes = plt.subplots(figsize=(8, 0.6 * len(timed) + 1.2), layout="constrained")
        bars = axes.barh(range(len(timed)), [f["epoch_seconds"] for f in timed], color="#2f6f9f")
        axes.bar_label(bars, fmt="%.3g s", padding=3)
        axes.set_yticks(range(len(timed)), names, fontsize=8)
        axes.set(xscale="log", xlabel="seconds per epoch (log scale)")
        axes.margins(x=0.2)
        axes.invert_yaxis()
        made.append(folder / "epochs.png")
        save_figure(figure, made[-1], dpi=150)
    sums = [f for f in figures if "theorem_seconds" in f]
    if sums:
        figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
        for key, name in (("enumeration_seconds", "enumeration"), ("theorem_seconds", "Theorem 1")):
            axes.plot([f["entities"] for f in sums], [f[key] for f in sums], marker="o", label=name)
        axes.set(xscale="log", yscale="log", xlabel="entities", ylabel="seconds for the sum of all scores")
        axes.legend()
        made.append(folder / "theorem.png")
        save_figure(figure, made[-1], dpi=150)
    return made


def _label(figure: dict[str, Any]) -> str:
    extra = [f"{key} {figure[key]}" for key in ("negatives", "dropout") if figure.get(key)]
    what = [figure["model"], f"d {figure['dim']}", f"batch {figure['batch']}", *extra, figure["workload"]]
    return f"{figure['engine']}\n{', '.join(what)}"
