"""Epochs over facts that stay on disk: the engines' own steps, fed by a windowed shuffle.

The file is cut into blocks. An epoch visits all blocks in a new random order; so many of them at once make a window,
and the facts of a window are shuffled together. Facts of one block thus meet only those of the blocks beside it in
that epoch: a full shuffle where the window holds the whole file, and close to one where the file's own order is
random, as `ingest` leaves it. Memory holds one window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.objectives import Objective
from staypositive.training.engine import ReferenceEngine
from staypositive.training.fused_cpu import FusedCpuEngine
from staypositive.training.optimisers import RowOptimiser

BLOCK = 1 << 14
"""Facts that are read together."""
WINDOW = 1 << 8
"""Blocks that are shuffled together: 2²² facts, 100 MB."""


class Rows(Protocol):
    """An array of facts on disk, shape (n, 3)."""

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from `first` up to `last`, or to the end."""


class FactStream:
    """Facts on disk, drawn in a windowed shuffle."""

    def __init__(self, rows: Rows, block: int = BLOCK, window: int = WINDOW) -> None:
        if min(block, window) < 1:
            raise SettingError(f"block and window must be at least 1, got {block} and {window}")
        self.rows, self.block, self.window = rows, block, window

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield all facts once, in batches of one size but for the last; what a window leaves over joins the next."""
        rest = torch.empty((0, 3), dtype=torch.int64)
        order = torch.randperm(-(-len(self) // self.block), generator=generator)
        for blocks in order.split(self.window):
            facts = torch.cat([self._read(block) for block in blocks.tolist()])
            shuffled = torch.cat([rest, facts[torch.randperm(len(facts), generator=generator)]])
            *whole, rest = shuffled.split(size)
            if len(rest) == size:
                whole, rest = [*whole, rest], rest[:0]
            yield from whole
        if len(rest):
            yield rest

    def _read(self, block: int) -> Tensor:
        return torch.from_numpy(self.rows.read(block * self.block, (block + 1) * self.block)).long()


def can_stream(objective: Objective) -> bool:
    """Return whether a step of an objective needs no more than its own facts."""
    return type(objective).prepare is Objective.prepare and not objective.is_reciprocal


class StreamedEngine(ReferenceEngine):
    """The reference engine's steps, over facts on disk."""

    def __init__(
        self,
        model: BilinearModel,
        objective: Objective,
        optimiser: RowOptimiser,
        stream: FactStream,
        batch_size: int,
        seed: int,
    ) -> None:
        if not can_stream(objective):
            raise SettingError(
                f"the objective {objective.name} has to see all facts first, so that none can be streamed"
            )
        super().__init__(model, objective, optimiser, torch.empty((0, 3), dtype=torch.int64), batch_size, seed)
        self.stream, self.n_facts = stream, len(stream)
        self.batches = -(-len(stream) // batch_size)

    def epoch_batches(self) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Yield the facts as the stream draws them."""
        for facts in self.stream.batches(self.batch_size, self.generator):
            yield facts, {}


class StreamedCpuEngine(StreamedEngine, FusedCpuEngine):
    """The compiled steps, over facts on disk."""
