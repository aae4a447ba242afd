"""Steps as a CUDA graph, for objectives whose steps all have the same shapes: one launch a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.models.hashing import step_keys
from staypositive.objectives import Objective
from staypositive.training.engine import ReferenceEngine, WholeTableEngine
from staypositive.training.moment_engine import MomentEngine
from staypositive.training.optimisers import AdaGrad, RowOptimiser

SMALL = 2**25
"""Weights up to which passing over all of them costs less than launching the kernels of a step one by one."""


class GraphedEngine(ReferenceEngine):
    """Captures one step of the reference engine and replays it.

    An objective that touches all rows needs no distinct rows, so nothing in its step depends on the data's values:
    every kernel can be recorded. The last, short batch of an epoch is stepped through as usual. Matrix products are
    taken in TF32 (`products`): ten bits of mantissa, sums in 32 bits.
    """

    products: ClassVar[str] = "high"

    graph: Any = None
    chosen: Tensor
    key: Tensor
    totals: dict[str, Tensor]

    @staticmethod
    def can_capture(objective: Objective, optimiser: RowOptimiser, device: torch.device) -> bool:
        """Return whether these steps can be captured."""
        return device.type == "cuda" and objective.touches_all_rows and isinstance(optimiser, AdaGrad)

    def run_epoch(self) -> dict[str, Tensor]:
        """Shuffle, then replay the step on each batch."""
        with _products(self.products):
            return self._run_epoch()

    def _run_epoch(self) -> dict[str, Tensor]:
        self.model.train()
        order = torch.randperm(len(self.facts), generator=self.generator, device=self.facts.device)
        keys = step_keys(self.seed, self.steps, self.batches, self.facts.device)
        if self.graph is None and len(self.facts) >= self.batch_size:
            self._capture(order)
        totals = self.totals if self.graph is not None else {}
        for total in totals.values():
            total.zero_()
        rest: dict[str, Tensor] = {}
        for step, chosen in enumerate(order.split(self.batch_size)):
            if len(chosen) == self.batch_size:
                self.chosen.copy_(chosen)
                self.key.copy_(keys[step : step + 1])
                self.graph.replay()
            else:
                terms = self._step(self.facts[chosen], self.prepared_for(chosen), keys[step : step + 1])
                rest = {name: term * (len(chosen) if self.objective.averages else 1) for name, term in terms.items()}
        self.steps += self.batches
        sums = [terms for terms in (totals, rest) if terms]
        return {n: torch.stack([terms[n] for terms in sums]).sum(0) / len(self.facts) for n in sums[0]}

    def _capture(self, order: Tensor) -> None:
        """Record the step; what the recording itself trains is taken back."""
        assert isinstance(self.optimiser, AdaGrad)
        state = [*(table.data for table in self.model.parameters()), *self.optimiser.squares.values()]
        kept = [tensor.clone() for tensor in state]
        self.chosen, self.key = order[: self.batch_size].clone(), torch.zeros_like(order[:1])
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                terms = self._captured_step()
        torch.cuda.current_stream().wait_stream(stream)
        self.totals = {name: torch.zeros_like(term) for name, term in terms.items()}
        share = self.batch_size if self.objective.averages else 1
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for name, term in self._captured_step().items():
                self.totals[name].add_(term, alpha=share)
        for tensor, value in zip(state, kept, strict=True):
            tensor.copy_(value)

    def _captured_step(self) -> dict[str, Tensor]:
        return self._step(self.facts[self.chosen], self.prepared_for(self.chosen), self.key)


class GraphedBatchEngine(GraphedEngine, WholeTableEngine):
    """Captures the step of an objective that touches its examples' rows alone, on whole tables that are small."""

    products: ClassVar[str] = "highest"

    @staticmethod
    def serves(model: BilinearModel, optimiser: RowOptimiser, device: torch.device) -> bool:
        """Return whether these steps can be captured, and the tables are small enough."""
        size = sum(table.numel() for table in model.parameters())
        return device.type == "cuda" and isinstance(optimiser, AdaGrad) and size <= SMALL


class GraphedMomentEngine(GraphedEngine, MomentEngine):
    """Captures the second-moment step."""


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Take matrix products of 32-bit floats in a precision of torch's, and put the old one back."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
