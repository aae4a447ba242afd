"""What columns are called: which hold head, relation and tail, which a label of truth, which a confidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.labelled import Place, Signs, Weights

TRIPLE_NAMES = (
    {"head", "subject", "subj", "source", "src", "from"},
    {"relation", "rel", "predicate", "pred", "property"},
    {"tail", "object", "obj", "target", "dst", "to"},
)  # whole words alone: (s, p, o) may well be a triple of somebody's toy graph
SHORT_NAMES = ({"s", "h"}, {"p", "r"}, {"o", "t"})
"""Where columns have names for certain, as in a frame or a query, these will do too."""
LABEL_NAMES = {"label", "sign", "truth"}
CONFIDENCE_NAMES = {"confidence", "weight"}
_SIGNS = {"1": 1, "-1": -1}


def folded(name: object) -> str:
    """Return a column's name as it is compared."""
    return str(name).strip().casefold()


def looks_like_header(row: Sequence[str]) -> bool:
    """Return whether a first row names columns rather than stating a triple."""
    cells = [folded(cell) for cell in row[:3]]
    return len(cells) == 3 and all(cell in names for cell, names in zip(cells, TRIPLE_NAMES, strict=True))


def find_column(names: Sequence[object], among: set[str]) -> int | None:
    """Return the place of the first column with one of these names."""
    return next((place for place, name in enumerate(names) if folded(name) in among), None)


def parse_signs(cells: Sequence[str], lines: Sequence[int], place: Place, where: str = "fourth") -> Signs:
    """Return ±1 from text; anything else is an error that names its line."""
    if not set(cells) <= set(_SIGNS):
        row = next(row for row, cell in enumerate(cells) if cell not in _SIGNS)
        raise place.error(f"expected 1 or -1 in the {where} column, found {cells[row]!r}", lines[row])
    return np.array([_SIGNS[cell] for cell in cells], dtype=np.int8)


def parse_weights(cells: Sequence[str], lines: Sequence[int], place: Place) -> Weights:
    """Return confidences from text; anything but a number from 0 is an error that names its line."""
    try:
        weights = np.array(cells, dtype=np.float64)
    except ValueError:
        weights = np.array([_number(cell) for cell in cells])
    return checked_weights(weights, cells, lines, place)


def checked_weights(
    weights: NDArray[np.float64], cells: Sequence[object], lines: Sequence[int], place: Place
) -> Weights:
    """Return confidences that are numbers from 0; another is an error that names its line."""
    bad = np.flatnonzero(~((weights <= np.finfo(np.float32).max) & (weights >= 0)))
    if len(bad):
        row = int(bad[0])
        raise place.error(f"expected a number from 0 as confidence, found {cells[row]!r}", int(lines[row]))
    return weights.astype(np.float32)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
