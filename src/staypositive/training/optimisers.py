"""Optimisers that update the rows a step touched, and only those.

A row without gradient is left alone. For AdaGrad this is exactly the dense algorithm, since a zero gradient changes
neither its accumulator nor its weights. For Adam it is the lazy variant (as in `torch.optim.SparseAdam`): the moments
of a row rest while the row does; where every row is touched, it is plain Adam.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from staypositive.errors import SettingError


class RowOptimiser(ABC):
    """Updates tables of rows in place."""

    def __init__(self, tables: dict[str, Tensor], learning_rate: float) -> None:
        if not learning_rate > 0:
            raise SettingError(f"the learning rate must be above 0, got {learning_rate}")
        self.tables, self.learning_rate = tables, learning_rate

    @abstractmethod
    def begin_step(self) -> None:
        """Say that the updates that follow belong to a new step."""

    @abstractmethod
    def update(self, table: str, ids: Tensor | None, gradient: Tensor) -> None:
        """Update the rows `ids` of a table (all rows for None) by their gradient, shape (rows, width)."""


class AdaGrad(RowOptimiser):
    """Duchi et al. 2011: w ← w − lr · g / (√Σg² + ε), Σg² starting from `accumulator`."""

    def __init__(
        self, tables: dict[str, Tensor], learning_rate: float, accumulator: float = 0.1, epsilon: float = 1e-10
    ) -> None:
        super().__init__(tables, learning_rate)
        self.epsilon = epsilon
        self.squares = {name: torch.full_like(table, accumulator) for name, table in tables.items()}

    def begin_step(self) -> None:
        """AdaGrad counts no steps."""

    @torch.no_grad()
    def update(self, table: str, ids: Tensor | None, gradient: Tensor) -> None:
        """Add g² to the accumulator, then step."""
        weights, squares = self.tables[table], self.squares[table]
        if ids is None:
            squares.addcmul_(gradient, gradient)
            weights.addcdiv_(gradient, squares.sqrt().add_(self.epsilon), value=-self.learning_rate)
            return
        rows = squares[ids].addcmul_(gradient, gradient)
        squares[ids] = rows
        weights.index_add_(0, ids, gradient / rows.sqrt_().add_(self.epsilon), alpha=-self.learning_rate)


class Adam(RowOptimiser):
    """Kingma and Ba 2015, on the touched rows."""

    def __init__(
        self,
        tables: dict[str, Tensor],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(tables, learning_rate)
        self.betas, self.epsilon, self.steps = betas, epsilon, 0
        self.means = {name: torch.zeros_like(table) for name, table in tables.items()}
        self.squares = {name: torch.zeros_like(table) for name, table in tables.items()}

    def begin_step(self) -> None:
        """Count the step, for the correction of the moments' bias."""
        self.steps += 1

    @torch.no_grad()
    def update(self, table: str, ids: Tensor | None, gradient: Tensor) -> None:
        """Move both moments towards the gradient, then step."""
        rows = slice(None) if ids is None else ids
        mean_decay, square_decay = self.betas
        mean = self.means[table][rows].lerp(gradient, 1 - mean_decay)
        square = self.squares[table][rows].mul(square_decay).addcmul(gradient, gradient, value=1 - square_decay)
        self.means[table][rows], self.squares[table][rows] = mean, square
        size = (square / (1 - square_decay**self.steps)).sqrt_().add_(self.epsilon)
        self.tables[table][rows] -= self.learning_rate / (1 - mean_decay**self.steps) * mean / size


OPTIMISERS = ("adagrad", "adam")


def build_optimiser(name: str, tables: dict[str, Tensor], learning_rate: float, accumulator: float) -> RowOptimiser:
    """Build an optimiser by name; `accumulator` is AdaGrad's start."""
    if name == "adagrad":
        return AdaGrad(tables, learning_rate, accumulator)
    if name == "adam":
        return Adam(tables, learning_rate)
    raise SettingError(f"expected an optimiser among {', '.join(OPTIMISERS)}, got {name!r}")
