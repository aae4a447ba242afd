"""The fused engine on the GPU: the steps of the reference engine, an epoch in one replay of a CUDA graph."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from staypositive.models import BilinearModel, BlockModel
from staypositive.models.dropout import drop_threshold, mix
from staypositive.objectives import Objective, StayPositive
from staypositive.training.engine import Engine
from staypositive.training.optimisers import AdaGrad, RowOptimiser

MOST_GRAPHED_STEPS = 4096
"""Longer epochs are launched step by step: their steps are large, and a graph of them would be too."""


class FusedGpuEngine(Engine):
    """Takes the reference engine's steps through Triton kernels. Sums run in no fixed order, as atomics do."""

    serves: ClassVar[tuple[type[Objective], ...]] = (StayPositive,)

    def __init__(
        self,
        model: BilinearModel,
        objective: Objective,
        optimiser: RowOptimiser,
        facts: Tensor,
        batch_size: int,
        seed: int,
    ) -> None:
        from staypositive.training import gpu_kernels

        assert isinstance(model, BlockModel)
        assert isinstance(objective, StayPositive)
        assert isinstance(optimiser, AdaGrad)
        self.kernels, self.model, self.table = gpu_kernels, model, model.table
        self.objective, self.optimiser = objective, optimiser
        self.triples, self.batch_size, self.seed = facts.to(torch.int32), min(batch_size, len(facts)), seed
        self.batches = -(-len(facts) // batch_size)
        device = self.device = facts.device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.bounded = model.bound == "tanh"
        self.weights = {"entities": model.entities.data, "relations": model.relations.data}
        self.rows = {name: model.bounded(w).clone() if self.bounded else w for name, w in self.weights.items()}
        self.gradients = {name: torch.zeros_like(w) for name, w in self.weights.items()}
        blocks = model.table.entity_blocks + model.table.relation_blocks
        self.stamps = {n: torch.zeros(len(w), dtype=torch.int32, device=device) for n, w in self.weights.items()}
        room = {"entities": 2 * self.batch_size, "relations": self.batch_size}
        self.found = {
            n: torch.zeros(min(room[n], len(w)) + 1, dtype=torch.int32, device=device)
            for n, w in self.weights.items()
        }
        self.order = torch.zeros(len(facts), dtype=torch.int64, device=device)
        self.steps_before = torch.zeros(1, dtype=torch.int64, device=device)
        self.counts = torch.zeros(self.batches, 2, dtype=torch.int32, device=device)
        self.sums = torch.zeros(self.batches, gpu_kernels.COPIES, blocks * model.dim, device=device)
        self.losses = torch.zeros(self.batches, 2, device=device)
        self.push, self.control = torch.zeros(blocks * model.dim, device=device), torch.zeros(2, device=device)
        self.graph: Any = None

    def run_epoch(self) -> dict[str, Tensor]:
        """Shuffle on the device, then replay the epoch."""
        self.model.train()
        torch.randperm(len(self.order), generator=self.generator, out=self.order)
        if self.device.type == "cuda" and self.batches <= MOST_GRAPHED_STEPS:
            self._replay()
        else:
            self._steps()
        totals = self.losses.double().sum(0) / len(self.triples)
        return {"facts": totals[0], "penalty": totals[1]}

    def _steps(self) -> None:
        """Launch every step of an epoch."""
        for buffer in (self.counts, self.sums, self.losses):
            buffer.zero_()
        for step in range(self.batches):
            start = step * self.batch_size
            self._step(step, start, min(self.batch_size, len(self.order) - start))
        self.steps_before += self.batches

    def _replay(self) -> None:
        if self.graph is None:  # compile and capture on copies of nothing: the warm-up must not train
            kept = self._state()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._steps()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._steps()
            for tensor, value in kept:
                tensor.copy_(value)
        self.graph.replay()

    def _state(self) -> list[tuple[Tensor, Tensor]]:
        own = [*self.weights.values(), *self.optimiser.squares.values(), *self.stamps.values(), self.steps_before]
        own += list(self.rows.values()) if self.bounded else []
        return [(tensor, tensor.clone()) for tensor in own]

    def _step(self, step: int, start: int, n: int) -> None:
        kernels, model, table, objective = self.kernels, self.model, self.table, self.objective
        wide = 1 << max(4, (model.dim - 1).bit_length())
        shape: dict[str, Any] = {"DIM": model.dim, "WIDE": wide}
        terms = {"CODE": kernels.encode_terms(table), "TERMS": len(table.terms)}
        blocks = {"EB": table.entity_blocks, "RB": table.relation_blocks}
        copies = {"SUM_COPIES": kernels.COPIES}
        all_rows, per = objective.touches_all_rows, max(1, 1024 // wide)
        factor = model.scale * abs(table.terms[0].coefficient)
        threshold = drop_threshold(model.dropout)
        kernels.examples[(-(-n // per),)](
            self.triples, self.order, start, n, self.rows["entities"], self.rows["relations"],
            self.gradients["entities"], self.gradients["relations"], self.stamps["entities"],
            self.stamps["relations"], self.found["entities"], self.found["relations"], self.counts, self.sums,
            self.losses, self.steps_before, step, mix(self.seed), threshold, model.prior_score,
            factor / (1 - threshold / 2**32),
            **terms, **blocks, **shape, **copies, ROWS=per, DROPOUT=threshold > 0, ALL_ROWS=all_rows,
        )  # fmt: skip
        if all_rows:
            for offset, (name, size) in zip((0, blocks["EB"]), self._sizes().items(), strict=True):
                rows = self.rows[name]
                kernels.sum_rows[(-(-len(rows) // 64),)](
                    rows, len(rows), self.sums, step, OFFSET=offset, BLOCKS=size, ALL_BLOCKS=sum(blocks.values()),
                    ROWS=64, **shape, **copies,
                )  # fmt: skip
        kernels.penalty[(1,)](
            self.sums, self.losses, self.push, self.control, step, factor, objective.weight(self.batches),
            **terms, **blocks, **shape, **copies, SQUARED=objective.power == 2,
        )  # fmt: skip
        for which, (name, size) in enumerate(self._sizes().items()):
            weights = self.weights[name]
            listed = len(weights) if all_rows else min((2 - which) * n, len(weights))
            kernels.adagrad[(-(-listed // per),)](
                weights, self.optimiser.squares[name], self.rows[name], self.gradients[name], self.found[name],
                self.counts, step, self.push[which * blocks["EB"] * model.dim :], self.control,
                self.optimiser.learning_rate, self.optimiser.epsilon, len(weights), WHICH=which, BLOCKS=size,
                ROWS=per, BOUNDED=self.bounded, ALL_ROWS=all_rows, **shape,
            )  # fmt: skip

    def _sizes(self) -> dict[str, int]:
        """Blocks of each table."""
        return {"entities": self.table.entity_blocks, "relations": self.table.relation_blocks}
