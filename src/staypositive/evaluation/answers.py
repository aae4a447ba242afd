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
