"""Optimisers that update the rows a step touched, and only those.

A row without gradient is left alone. For AdaGrad this is exactly the dense algorithm, since a zero gradient changes
neither its accumulator nor its weights. For Adam it is the lazy variant (as in `torch.optim.SparseAdam`): the moments
of a row rest while the row does; where every row is touched, it is plain Adam.

A table may keep its rows in bfloat16. The step is then taken in 32 bits, and the result rounded up or down at random
(by a hash of step, table, row and column), so that small steps count on average instead of being rounded away.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models.hashing import GOLDEN, HAS_TRITON, mix_all
from staypositive.training.state import State, copy_into, under


class RowOptimiser(ABC):
    """Updates tables of rows in place."""

    def __init__(self, tables: dict[str, Tensor], learning_rate: float) -> None:
        if not learning_rate > 0:
            raise SettingError(f"the learning rate must be above 0, got {learning_rate}")
        self.tables, self.learning_rate = tables, learning_rate
        self.key = torch.zeros((), dtype=torch.int64)

    def begin_step(self, key: Tensor) -> None:
        """Say that the updates that follow belong to a new step, of this key."""
        self.key = key

    @torch.no_grad()
    def update(self, table: str, ids: Tensor | None, gradient: Tensor) -> None:
        """Update the rows `ids` of a table (all rows for None) by their gradient, shape (rows, width)."""
        weights = self.tables[table]
        step = self.step_of(table, slice(None) if ids is None else ids, gradient)
        if weights.dtype != torch.bfloat16:
            if ids is None:
                weights.sub_(step)
            else:
                weights.index_add_(0, ids, step, alpha=-1)
            return
        rows = torch.arange(len(weights), device=weights.device) if ids is None else ids
        salt = list(self.tables).index(table)
        weights[rows] = round_at_random(
            weights[rows].float() - step, rounding_bits(self.key, salt, rows, step.shape[1])
        )

    def state(self) -> State:
        """Return what the next update depends on, beside the tables; the tensors are the optimiser's own."""
        return {}

    def restore(self, state: State) -> None:
        copy_into(self.state(), state)

    @abstractmethod
    def step_of(self, table: str, rows: Tensor | slice, gradient: Tensor) -> Tensor:
        """Take a gradient into the state of some rows, and return what to subtract from their weights."""


class AdaGrad(RowOptimiser):
    """Duchi et al. 2011: w ← w − lr · g / (√Σg² + ε), Σg² starting from `accumulator`.

    `rowwise` keeps one sum per row, of the mean of g² over the row: half the memory, and a quarter less to move.
    """

    def __init__(
        self,
        tables: dict[str, Tensor],
        learning_rate: float,
        accumulator: float = 0.1,
        epsilon: float = 1e-10,
        *,
        rowwise: bool = False,
    ) -> None:
        super().__init__(tables, learning_rate)
        self.epsilon, self.rowwise = epsilon, rowwise
        self.squares = {
            name: beside(table, 1 if rowwise else table.shape[1], accumulator) for name, table in tables.items()
        }

    @torch.no_grad()
    def update(self, table: str, ids: Tensor | None, gradient: Tensor) -> None:
        """Update rows; a whole table on a GPU in one pass."""
        weights = self.tables[table]
        if ids is not None or self.rowwise or weights.dtype != torch.float32 or not (weights.is_cuda and HAS_TRITON):
            super().update(table, ids, gradient)
            return
        from staypositive.training.dense_adagrad import step_whole_table

        step_whole_table(weights, self.squares[table], gradient, self.learning_rate, self.epsilon)

    def state(self) -> State:
        return under("squares", self.squares)

    def step_of(self, table: str, rows: Tensor | slice, gradient: Tensor) -> Tensor:
        squares = self.squares[table]
        added = gradient.square()
        new = squares[rows] + (added.mean(1, keepdim=True) if self.rowwise else added)
        squares[rows] = new
        return gradient * self.learning_rate / new.sqrt().add_(self.epsilon)


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
        self.means, self.squares = (
            {name: beside(table, table.shape[1], 0.0) for name, table in tables.items()} for _ in range(2)
        )

    def begin_step(self, key: Tensor) -> None:
        """Count the step, for the correction of the moments' bias."""
        super().begin_step(key)
        self.steps += 1

    def state(self) -> State:
        return {**under("means", self.means), **under("squares", self.squares), "steps": torch.tensor(self.steps)}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.steps = int(state["steps"])

    def step_of(self, table: str, rows: Tensor | slice, gradient: Tensor) -> Tensor:
        mean_decay, square_decay = self.betas
        mean = self.means[table][rows].lerp(gradient, 1 - mean_decay)
        square = self.squares[table][rows].mul(square_decay).addcmul(gradient, gradient, value=1 - square_decay)
        self.means[table][rows], self.squares[table][rows] = mean, square
        size = (square / (1 - square_decay**self.steps)).sqrt_().add_(self.epsilon)
        return self.learning_rate / (1 - mean_decay**self.steps) * mean / size


def beside(table: Tensor, columns: int, value: float) -> Tensor:
    """Return some numbers for each row of a table, in 32 bits where the table has 16."""
    dtype = torch.float32 if table.dtype == torch.bfloat16 else table.dtype
    return torch.full((len(table), columns), value, dtype=dtype, device=table.device)


def rounding_bits(key: Tensor, salt: int, rows: Tensor, columns: int) -> Tensor:
    """Return 16 random bits per entry, shape (rows, columns), by the global number of its row."""
    row_keys = mix_all(mix_all(key + (salt + 2) * GOLDEN) + rows)
    return mix_all(row_keys[:, None] + torch.arange(columns, device=rows.device) * GOLDEN) & 0xFFFF


def round_at_random(values: Tensor, bits: Tensor) -> Tensor:
    """Round 32-bit floats to bfloat16, up with the probability of the part cut off, as 16 random bits decide.

    >>> round_at_random(torch.tensor([1.0, -0.5]), torch.tensor([0xFFFF, 0xFFFF])).tolist()  # exact ones stay
    [1.0, -0.5]
    """
    raised = values.view(torch.int32) + bits.to(torch.int32)
    return (raised & -65536).view(torch.float32).to(torch.bfloat16)


PRECISIONS = ("float32", "bfloat16")
"""How a table keeps its rows."""
ADAGRADS = ("adagrad", "adagrad-rowwise")
OPTIMISERS = (*ADAGRADS, "adam")


def build_optimiser(name: str, tables: dict[str, Tensor], learning_rate: float, accumulator: float) -> RowOptimiser:
    """Build an optimiser by name; `accumulator` is AdaGrad's start."""
    if name in ADAGRADS:
        return AdaGrad(tables, learning_rate, accumulator, rowwise=name == "adagrad-rowwise")
    if name == "adam":
        return Adam(tables, learning_rate)
    raise SettingError(f"expected an optimiser among {', '.join(OPTIMISERS)}, got {name!r}")
