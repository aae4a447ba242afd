"""What columns are called: which hold head, relation and tail, which a label of truth, which a confidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.labelled import Place, Signs, Weights

FAMILIES = (
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("subj", "pred", "obj"),
    ("source", "property", "target"),
    ("src", "rel", "dst"),
    ("from", "rel", "to"),
)
"""Names of head, relation and tail that go together, most telling first."""
SHORT_FAMILIES = (("h", "r", "t"), ("s", "p", "o"))
"""These will do where columns have names for certain; (s, p, o) may well be a triple of somebody's toy graph."""
ALL_FAMILIES = (*FAMILIES, *SHORT_FAMILIES)
LABEL_NAMES = ("label", "sign", "truth")
CONFIDENCE_NAMES = ("confidence", "weight")
SIGNS = {"1": 1, "-1": -1}


def folded(name: object) -> str:
    """Return a column's name as it is compared."""
    return str(name).strip().casefold()


def find_triple(names: Iterable[object], families: Sequence[tuple[str, str, str]]) -> tuple[str, str, str] | None:
    """Return which names stand for head, relation and tail, as they are compared; None where one is lacking.

    Head and tail of one family are preferred to any two: in `source, subject, predicate, object` the head is the
    subject, and the source something else.
    """
    there = set(map(folded, names))
    for head, relation, tail in families:
        own = next((name for name in (relation, *(family[1] for family in families)) if name in there), None)
        if own is not None and {head, tail} <= there:
            return head, own, tail
    mixed = [next((family[part] for family in families if family[part] in there), None) for part in range(3)]
    head_, relation_, tail_ = mixed
    return None if head_ is None or relation_ is None or tail_ is None else (head_, relation_, tail_)


def looks_like_header(row: Sequence[str]) -> bool:
    """Return whether a first row names columns rather than stating a triple.

    A row that could be a triple must have the full names of head, relation and tail, in any order; one of more cells
    may have the short ones.
    """
    could_be_triple = len(row) == 3 or (len(row) == 4 and row[3] in SIGNS)
    return find_triple(row, FAMILIES if could_be_triple else ALL_FAMILIES) is not None


def parse_signs(
    cells: Sequence[str], lines: Sequence[int], place: Place, where: str = "fourth column", hint: str = ""
) -> Signs:
    """Return ±1 from text; anything else is an error that names its line."""
    if not set(cells) <= set(SIGNS):
        row = next(row for row, cell in enumerate(cells) if cell not in SIGNS)
        raise place.error(f"expected 1 or -1 in the {where}, found {cells[row]!r}{hint}", lines[row])
    return np.array([SIGNS[cell] for cell in cells], dtype=np.int8)


def parse_weights(cells: Sequence[str], lines: Sequence[int], place: Place) -> Weights:
    """Return confidences from text; anything but a number from 0 is an error that names its line."""
    try:
        weights = np.array(cells, dtype=np.float64)
    except ValueError:
        weights = np.array([as_number(cell) for cell in cells])
    return checked_weights(weights, cells, lines, place)


def checked_weights(
    weights: NDArray[np.float64], cells: Sequence[object], lines: Sequence[int], place: Place
) -> Weights:
    """Return confidences that are numbers from 0; another is an error that names its line."""
    bad = np.flatnonzero(~((weights <= np.finfo(np.float32).max) & (weights >= 0)))
    if len(bad):
        row = int(bad[0])
        found = repr(cells[row])[:80]
        raise place.error(f"expected a number from 0 as confidence, found {found}", int(lines[row]))
    return weights.astype(np.float32)


def as_number(cell: object) -> float:
    """Return a cell as a number, NaN where it is none."""
    try:
        return float(cell) if isinstance(cell, str | int | float | np.integer | np.floating) else float("nan")
    except (ValueError, OverflowError):
        return float("nan")
