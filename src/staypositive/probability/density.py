"""Densities of one number: by kernels, and of the background on the scale that they are estimated on."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def background_density(u: Floats) -> Floats:
    """The density of u = asinh z for z from N(0, 1)."""
    return np.asarray(np.exp(-0.5 * np.sinh(u) ** 2) / np.sqrt(2 * np.pi) * np.cosh(u))


def kernel_width(values: Floats) -> float:
    """Silverman's width of a Gaussian kernel."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), (high - low) / 1.34) or values.std() or 0.1
    return float(max(0.9 * spread * len(values) ** -0.2, 0.02))


def kernel_density(values: Floats, knots: Floats, width: float | None = None) -> Floats:
    """A Gaussian kernel estimate at evenly spaced knots.

    Each value is shared between the two nearest points of a finer grid, in steps of at most an eighth of the width,
    and the grid is convolved with the kernel, which is cut at six widths: as good, and the values cost one pass.
    """
    width = kernel_width(values) if width is None else width
    finer = math.ceil(8 * (knots[1] - knots[0]) / width)
    step = (knots[1] - knots[0]) / finer
    reach = math.ceil(6 * width / step)
    places = (values - knots[0]) / step + reach
    size = finer * (len(knots) - 1) + 2 * reach + 1
    places = places[(places >= 0) & (places < size - 1)]
    below = np.floor(places).astype(np.int64)
    above = places - below
    mass = np.bincount(below, 1 - above, size) + np.bincount(below + 1, above, size)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    sums = np.convolve(mass, kernel, mode="valid")[::finer]
    return np.asarray(sums / (len(values) * width * np.sqrt(2 * np.pi)))
