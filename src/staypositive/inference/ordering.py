"""The one order in which answers are shown: by probability, then by score, then by ids.

Log-odds and scores count as equal where they differ by no more than rounding does: they are compared on a grid, 1e-8
wide around zero and in proportion beyond one. Everything that is ordered here is computed in 64 bits, with errors
many thousand times smaller, so that ties are ties on every processor, for any number of threads or processes, and
however the work was cut into pieces. Ties go by the ids of head, relation and tail: the order in which the graph
first mentions them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TOLERANCE = 1e-8


def grid(values: Floats) -> Floats:
    """Return the places of values on the grid: equal for values that differ by rounding only.

    >>> grid(np.array([0.1 + 0.2, 0.3, 0.30001])).tolist()
    [29567305.0, 29567305.0, 29568263.0]
    """
    return np.rint(np.arcsinh(values) / TOLERANCE)


def best_first(log_odds: Floats, scores: Floats, ids: Ints, groups: Ints | None = None) -> Ints:
    """Return the order of answers, best first, shape (n,); `ids` has shape (n,) or (n, k).

    `groups` are kept apart, the lowest first: each is ordered by itself.

    >>> best_first(np.array([1.0, 2.0, 1.0, 1.0]), np.array([0.0, 0.0, 5.0, 0.0]), np.array([7, 1, 2, 3])).tolist()
    [1, 2, 3, 0]
    """
    columns = np.atleast_2d(ids.T)[::-1]
    keys = [*columns, -grid(scores), -grid(log_odds)]
    return np.lexsort(keys if groups is None else [*keys, groups])


def reaches(log_odds: Floats, aim: float) -> NDArray[np.bool_]:
    """Return which log-odds are at least the aim, or equal to it but for rounding."""
    return np.asarray(grid(log_odds) >= grid(np.array(aim)))


def best_of_each(log_odds: Tensor, scores: Tensor, top: int) -> tuple[Ints, Ints]:
    """Return the rows and columns of the `top` best entries of each row, rows in turn, best first; −inf is no entry.

    Both tensors have shape (n, answers). Only what can be among the best is sorted.
    """
    count = min(top, log_odds.shape[1])
    if count == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    last = log_odds.topk(count, dim=1).values[:, -1:]
    slack = 4 * TOLERANCE * (1 + last.abs())
    near = torch.nonzero((log_odds >= torch.where(last.isfinite(), last - slack, last)) & (log_odds > -torch.inf))
    rows, columns = near.cpu().numpy().T
    values, points = (part[near[:, 0], near[:, 1]].double().cpu().numpy() for part in (log_odds, scores))
    order = best_first(values, points, columns, rows)
    rows, columns = rows[order], columns[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return rows[place < count], columns[place < count]
