"""Looking up all answers of many queries at once, on any device: sorted arrays, no loop over triples."""

from __future__ import annotations

import torch
from torch import Tensor


class AnswerIndex:
    """The distinct answers of each key; a key is any number that names a query, answers are below `n_answers`."""

    def __init__(self, keys: Tensor, answers: Tensor, n_answers: int) -> None:
        self.n_answers = n_answers
        self.pairs = torch.unique(keys * n_answers + answers)  # sorted
        self.keys, self.answers = self.pairs // n_answers, self.pairs % n_answers

    def holds(self, keys: Tensor, answers: Tensor) -> Tensor:
        """Return whether each answer is one of its key's, shape as both broadcast.

        >>> index = AnswerIndex(torch.tensor([7, 7, 3]), torch.tensor([1, 2, 9]), 10)
        >>> index.holds(torch.tensor([7, 3]), torch.tensor([2, 2])).tolist()
        [True, False]
        """
        asked = keys * self.n_answers + answers
        place = torch.searchsorted(self.pairs, asked).clamp(max=len(self.pairs) - 1)
        found: Tensor = self.pairs[place] == asked
        return found

    def of(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the answers of many keys, as parallel arrays of position in `keys` and answer.

        >>> index = AnswerIndex(torch.tensor([7, 7, 3]), torch.tensor([1, 2, 9]), 10)
        >>> [part.tolist() for part in index.of(torch.tensor([3, 7, 5]))]
        [[0, 1, 1], [9, 1, 2]]
        """
        first = torch.searchsorted(self.keys, keys)
        counts = torch.searchsorted(self.keys, keys, right=True) - first
        positions = torch.repeat_interleave(counts)
        within = torch.arange(len(positions), device=keys.device) - (counts.cumsum(0) - counts)[positions]
        return positions, self.answers[first[positions] + within]


class KnownAnswers:
    """The answers that some facts, shape (n, 3), give to queries that leave one column of a triple open."""

    def __init__(self, facts: Tensor, column: int, n_entities: int, n_answers: int | None = None) -> None:
        self._given, self._n_entities = {0: (1, 2), 1: (0, 2), 2: (1, 0)}[column], n_entities
        self._index = AnswerIndex(self._keys(facts), facts[:, column], n_answers or n_entities)

    def of(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        return self._index.of(self._keys(queries))

    def holds(self, queries: Tensor, answers: Tensor) -> Tensor:
        """Return which of several answers of each query are known, shape (n, m)."""
        return self._index.holds(self._keys(queries)[:, None], answers)

    def _keys(self, triples: Tensor) -> Tensor:
        first, second = self._given
        return triples[:, first] * self._n_entities + triples[:, second]
