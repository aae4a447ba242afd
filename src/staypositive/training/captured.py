"""Steps as a CUDA graph, where all of them have the same shapes: one launch per step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from staypositive.models.hashing import step_keys
from staypositive.training.engine import AutogradEngine, Terms
from staypositive.training.optimisers import AdaGrad
from staypositive.training.stores import RowStore
from staypositive.training.task import FactsInMemory


class CapturedEngine(AutogradEngine):
    """Captures one step of autograd and replays it.

    A store that gives whole tables needs no distinct rows, so nothing in its step depends on the data's values: every
    kernel can be recorded. The last, short batch of an epoch is stepped through as usual. `products` is torch's
    precision of matrix products: "high" is TF32, ten bits of mantissa, sums in 32 bits.
    """

    facts: FactsInMemory
    graph: Any = None
    chosen: Tensor
    key: Tensor
    totals: Terms

    def __init__(self, store: RowStore, products: str) -> None:
        super().__init__(store)
        self.products = products

    def run_epoch(self) -> list[Terms]:
        with _products(self.products):
            return [self._run_epoch()]

    def _run_epoch(self) -> Terms:
        self.model.train()
        order = self.facts.order(self.generator)
        keys = step_keys(self.seed, self.steps, self.batches, order.device)
        if self.graph is None and len(order) >= self.batch_size:
            self._capture(order)
        totals = self.totals if self.graph is not None else {}
        for total in totals.values():
            total.zero_()
        rest: Terms = {}
        for step, chosen in enumerate(order.split(self.batch_size)):
            if len(chosen) == self.batch_size:
                self.chosen.copy_(chosen)
                self.key.copy_(keys[step : step + 1])
                self.graph.replay()
            else:
                terms = self.take_step(*self.facts.take(chosen), self.steps + step, keys[step : step + 1])
                rest = {name: term * (len(chosen) if self.objective.averages else 1) for name, term in terms.items()}
        self.steps += self.batches
        sums = [terms for terms in (totals, rest) if terms]
        return {n: torch.stack([terms[n] for terms in sums]).sum(0) / len(order) for n in sums[0]}

    def _capture(self, order: Tensor) -> None:
        """Record the step; what the recording itself trains is taken back."""
        assert isinstance(self.optimiser, AdaGrad)
        state = [*(table.data for table in self.model.parameters()), *self.optimiser.squares.values()]
        before = [tensor.clone() for tensor in state]
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
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)

    def _captured_step(self) -> Terms:
        return self.take_step(*self.facts.take(self.chosen), 0, self.key)


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Take matrix products of 32-bit floats in a precision of torch's, and put the old one back."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
