"""Figure 1: what probabilities the models give test triples, and how far those can be trusted. From artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.artifacts import Artifact
from experiments.plots import pyplot, save_figure
from staypositive.evaluation import sigmoid

BINS = 20
Floats = NDArray[np.float64]


def reliability(probabilities: Floats, truth: NDArray[np.bool_], bins: int = 15) -> tuple[Floats, Floats, Floats]:
    """Return mean stated probability, observed frequency and count of each filled bin of equal width."""
    bin_of = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    counts = np.bincount(bin_of, minlength=bins).astype(np.float64)
    filled = counts > 0
    stated = np.bincount(bin_of, probabilities, minlength=bins)[filled] / counts[filled]
    observed = np.bincount(bin_of, truth, minlength=bins)[filled] / counts[filled]
    return stated, observed, counts[filled]


def density(probabilities: Floats, grid: Floats) -> Floats:
    """Return a kernel density estimate, reflected at 0 and 1 so that nothing leaks out of [0, 1]."""
    from scipy.stats import gaussian_kde

    if np.ptp(probabilities) < 1e-6:
        return np.zeros_like(grid)
    estimate = gaussian_kde(probabilities, bw_method="silverman")
    return np.asarray(estimate(grid) + estimate(-grid) + estimate(2 - grid), dtype=np.float64)


def plot_figure1(dataset: str, models: Sequence[tuple[str, Artifact]], path: Path) -> None:
    """Draw one row of histograms and densities, and below it reliability curves, for the models of one dataset."""
    figure, axes = pyplot().subplots(2, len(models), figsize=(3.1 * len(models), 5.6), squeeze=False, sharex=True)
    grid = np.linspace(0, 1, 400)
    for column, (name, kept) in enumerate(models):
        probabilities = sigmoid(kept.arrays["test_logits"].astype(np.float64))
        truth = kept.arrays["test_signs"] > 0
        _histogram(axes[0, column], name, probabilities, grid)
        _curve(axes[1, column], probabilities, truth)
    axes[0, 0].set_ylabel("density of test triples")
    axes[1, 0].set_ylabel("share that is true")
    figure.suptitle(f"{dataset}: probabilities of test triples, uncalibrated")
    figure.tight_layout()
    save_figure(figure, path, dpi=110)


def _histogram(axis: Any, name: str, probabilities: Floats, grid: Floats) -> None:
    axis.hist(probabilities, bins=BINS, range=(0, 1), density=True, color="#9ecae1", edgecolor="white")
    axis.plot(grid, density(probabilities, grid), color="#08519c", linewidth=1.5)
    axis.set_title(name)
    axis.set_xlim(0, 1)


def _curve(axis: Any, probabilities: Floats, truth: NDArray[np.bool_]) -> None:
    stated, observed, counts = reliability(probabilities, truth)
    axis.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
    axis.plot(stated, observed, color="#08519c", linewidth=1)
    axis.scatter(stated, observed, s=6 + 120 * counts / counts.max(), color="#08519c", alpha=0.7, linewidth=0)
    axis.set_xlabel("stated probability")
    axis.set_ylim(0, 1)
