"""The paper's loss as one would first write it in PyTorch: whole tables, autograd, dense AdaGrad.

Written apart from the rest of the library on purpose: it is the yardstick of the benchmark, and of a test.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


class EagerStayPositive:
    """spDistMult or spSimplE in batch scope, by plain tensor operations on whole tables."""

    def __init__(
        self,
        model: str,
        entities: Tensor,
        relations: Tensor,
        penalty: float,
        learning_rate: float,
        bound: float = 5.0,
    ) -> None:
        """Start from given weights, shape (n, d) for distmult and (n, 2d) for simple; `penalty` is λ per batch."""
        self.model, self.penalty, self.bound = model, penalty, bound
        self.entities, self.relations = entities.clone().requires_grad_(), relations.clone().requires_grad_()
        self.optimiser = torch.optim.Adagrad(
            [self.entities, self.relations], lr=learning_rate, initial_accumulator_value=0.1
        )

    def scores(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Return φ for rows in parallel."""
        if self.model == "distmult":
            return (heads * relations * tails).sum(-1) * (self.bound / heads.shape[-1])
        (h, h2), (r, r2), (t, t2) = (rows.chunk(2, dim=-1) for rows in (heads, relations, tails))
        return ((h * r * t2).sum(-1) + (t * r2 * h2).sum(-1)) / 2 * (self.bound / h.shape[-1])

    def step(self, facts: Tensor) -> Tensor:
        """Take one step; return the loss before it."""
        self.optimiser.zero_grad()
        entities, relations = torch.tanh(self.entities), torch.tanh(self.relations)
        heads, names, tails = facts.unbind(1)
        loss = softplus(-self.scores(entities[heads], relations[names], entities[tails])).sum()
        of_entities = entities[torch.unique(facts[:, [0, 2]])].sum(0)
        of_relations = relations[torch.unique(names)].sum(0)
        loss = loss + self.penalty * self.scores(of_entities, of_relations, of_entities).abs()
        loss.backward()
        self.optimiser.step()
        return loss.detach()
