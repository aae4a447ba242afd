"""What there is to train, whatever takes the steps: a model, an objective, and facts in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel, BlockModel
from staypositive.objectives import LogisticForm, Objective
from staypositive.training.optimisers import AdaGrad, RowOptimiser
from staypositive.training.world import World

BLOCK = 1 << 14
"""Facts that are read together."""
WINDOW = 1 << 8
"""Blocks that are shuffled together: 2²² facts, 100 MB."""
Prepared = dict[str, Tensor]
"""What an objective prepared for some facts: numbers by name, one per fact."""


class FactsInMemory:
    """Facts on the model's device, shape (n, 3), and what the objective prepared for each."""

    def __init__(self, facts: Tensor, prepared: Prepared) -> None:
        self.facts, self.prepared, self.device = facts, prepared, facts.device

    def __len__(self) -> int:
        return len(self.facts)

    def order(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self.facts), generator=generator, device=self.device)

    def take(self, chosen: Tensor) -> tuple[Tensor, Prepared]:
        return self.facts[chosen], {name: values[chosen] for name, values in self.prepared.items()}

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Prepared]]:
        """Yield all facts once, in batches of one size; the last one may be short."""
        for chosen in self.order(generator).split(size):
            yield self.take(chosen)


class Rows(Protocol):
    """An array of facts on disk, shape (n, 3)."""

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from `first` up to `last`, or to the end."""


class FactStream:
    """Facts on disk, drawn in a windowed shuffle.

    The file is cut into blocks. An epoch visits all blocks in a new random order; some of them at once make a window,
    and the facts of a window are shuffled together. Facts of one block thus meet only those of the blocks beside it
    in that epoch: a full shuffle where the window holds the whole file, and close to one where the file's own order
    is random, as `ingest` leaves it. Memory holds one window.
    """

    device = torch.device("cpu")

    def __init__(self, rows: Rows, block: int = BLOCK, window: int = WINDOW) -> None:
        if min(block, window) < 1:
            raise SettingError(f"block and window must be at least 1, got {block} and {window}")
        self.rows, self.block, self.window = rows, block, window

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Prepared]]:
        """Yield all facts once, in batches of one size but for the last; what a window leaves over joins the next."""
        rest = torch.empty((0, 3), dtype=torch.int64)
        order = torch.randperm(-(-len(self) // self.block), generator=generator)
        for blocks in order.split(self.window):
            facts = torch.cat([self._read(block) for block in blocks.tolist()])
            shuffled = torch.cat([rest, facts[torch.randperm(len(facts), generator=generator)]])
            *whole, rest = shuffled.split(size)
            if len(rest) == size:
                whole, rest = [*whole, rest], rest[:0]
            for batch in whole:
                yield batch, {}
        if len(rest):
            yield rest, {}

    def _read(self, block: int) -> Tensor:
        return torch.from_numpy(self.rows.read(block * self.block, (block + 1) * self.block)).long()


def can_stream(objective: Objective) -> bool:
    """Return whether a step of an objective needs no more than its own facts."""
    return type(objective).prepare is Objective.prepare and not objective.is_reciprocal


@dataclass(frozen=True)
class TrainingTask:
    """What there is to train: a model by an objective, on facts in memory or on disk, here or over processes."""

    model: BilinearModel
    objective: Objective
    optimiser: RowOptimiser
    facts: Tensor | FactStream
    batch_size: int
    seed: int
    weights: Tensor | None = None
    """What each fact's loss counts; None: all alike."""
    world: World | None = None
    """The processes that share the entity table; None: it is whole in this one."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise SettingError(f"the batch size must be at least 1, got {self.batch_size}")

    @property
    def batches(self) -> int:
        return -(-len(self.facts) // self.batch_size)

    def source(self) -> FactsInMemory | FactStream:
        """Return the facts with what the objective prepares for each."""
        if isinstance(self.facts, FactStream):
            return self.facts
        prepared = self.objective.prepare(self.facts, self.model.n_entities, len(self.model.relations))
        if self.weights is not None:
            own = prepared.get("weight")
            prepared["weight"] = self.weights if own is None else own * self.weights
        return FactsInMemory(self.facts, prepared)

    def compiled(self) -> tuple[BlockModel, AdaGrad, LogisticForm]:
        """Return model, optimiser and loss as compiled steps take them, where `engines` found that they serve."""
        form = self.objective.logistic_form(self.batches)
        assert isinstance(self.model, BlockModel)
        assert isinstance(self.optimiser, AdaGrad)
        assert form is not None
        return self.model, self.optimiser, form
