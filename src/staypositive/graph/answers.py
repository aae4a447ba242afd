"""Looking up all answers of many queries at once: sorted arrays, no dictionary and no loop over triples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class AnswerIndex:
    """The distinct answers of each key; a key is any number that names a query."""

    def __init__(self, keys: Ints, answers: Ints) -> None:
        order = np.lexsort((answers, keys))
        keys, answers = keys[order], answers[order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (answers[1:] != answers[:-1])
        self.keys, self.answers = keys[new], answers[new]

    def of(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return the answers of many keys, as parallel arrays of position in `keys` and answer.

        >>> index = AnswerIndex(np.array([7, 7, 3]), np.array([1, 2, 9]))
        >>> [part.tolist() for part in index.of(np.array([3, 7, 5]))]
        [[0, 1, 1], [9, 1, 2]]
        """
        first, last = np.searchsorted(self.keys, keys, "left"), np.searchsorted(self.keys, keys, "right")
        counts = last - first
        positions = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        return positions, self.answers[np.repeat(first, counts) + within]
