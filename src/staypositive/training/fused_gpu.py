"""The fused engine on the GPU: many steps in one replay of a CUDA graph.

Several runs on the same facts go side by side in every launch; one run alone is a pack of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.models.hashing import drop_threshold, mix
from staypositive.training.engine import Engine, Terms, terms_of
from staypositive.training.state import State, copy_into, under
from staypositive.training.step_plan import StepPlan
from staypositive.training.task import TrainingTask

MOST_STEPS = 1024
"""Steps of one graph; a longer epoch replays it."""
MOST_EXAMPLES = 2**24
"""Examples planned at once: bounds the memory of the plan."""
PROGRAMS = 4096
"""How many programs share out the rows of a step, over all runs."""
LARGE_STEP = 8192
"""From this number of examples per run on, programs of `examples` take twice as many: measured on an H200."""


def shape_of(task: TrainingTask) -> tuple[Any, ...]:
    """Return what the runs of a pack must have in common."""
    (model, optimiser, form), objective = task.compiled(), task.objective
    return (
        model.table, model.dim, model.bound, model.scale, model.entities.shape, model.relations.shape,
        model.entities.dtype, type(objective), objective.negatives_per_fact, objective.touches_all_rows,
        form.power, form.penalty is None, optimiser.rowwise, task.batch_size,
    )  # fmt: skip


def hyperparameters_of(task: TrainingTask) -> list[float]:
    """Return what the runs of a pack may differ in, in the kernels' order."""
    model, optimiser, form = task.compiled()
    factor = model.scale * abs(model.table.terms[0].coefficient)
    keep = 1 - drop_threshold(model.dropout) / 2**32
    rate, epsilon = optimiser.learning_rate, optimiser.epsilon
    return [model.prior_score, factor / keep, factor, rate, epsilon, form.penalty or 0.0, form.decay, 0.0]


class FusedGpuEngine(Engine):
    """Takes the steps of `AutogradEngine` through Triton kernels, for one run or a pack of runs of one shape.

    Each run is what it would be alone; their tables become parts of larger ones. Sums run in no fixed order, as
    atomics do.
    """

    name = "fused-gpu"

    def __init__(self, tasks: Sequence[TrainingTask]) -> None:
        from staypositive.training import gpu_kernels

        first = tasks[0]
        if any(shape_of(task) != shape_of(first) for task in tasks):
            raise SettingError("the runs of a pack must be alike but for their rates, weights, priors and dropouts")
        assert isinstance(first.facts, Tensor)
        self.kernels, self.tasks, self.facts = gpu_kernels, list(tasks), first.facts
        self.batch_size, self.batches = min(first.batch_size, len(self.facts)), first.batches
        self.device = device = self.facts.device
        step_size = self.batch_size * (1 + first.objective.negatives_per_fact)
        self.chunk = max(1, min(self.batches, MOST_STEPS, MOST_EXAMPLES // step_size))
        seeds = sorted({task.seed for task in tasks})
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.plan = StepPlan(first, self.batch_size, self.chunk, seeds)
        self._join_tables()
        self.gradients = {
            name: torch.zeros(len(tasks), self.plan.most_rows(name), weights.shape[2], device=device)
            for name, weights in self.weights.items()
        }
        width = sum(weights.shape[2] for weights in self.weights.values())
        self.sums = torch.zeros(2, len(tasks), gpu_kernels.COPIES.value, width, device=device)
        self.losses = torch.zeros(len(tasks), self.chunk, gpu_kernels.LOSSES.value, device=device)
        self.totals = torch.zeros(len(tasks), gpu_kernels.LOSSES.value, dtype=torch.float64, device=device)
        self.orders = torch.zeros(len(seeds), len(self.facts), dtype=torch.int64, device=device)
        self.part = torch.zeros(len(seeds), self.chunk * self.batch_size, dtype=torch.int64, device=device)
        self.steps_before = torch.zeros(1, dtype=torch.int64, device=device)
        plans = [seeds.index(task.seed) for task in tasks]
        self.plan_of_run = torch.tensor(plans, dtype=torch.int32, device=device)
        self.hyperparameters = torch.tensor([hyperparameters_of(task) for task in tasks], device=device)
        self.hashes = torch.tensor(
            [[drop_threshold(task.model.dropout), mix(task.seed)] for task in tasks], device=device
        )
        self.graphs: dict[int, Any] = {}
        self.constants = self._constants()

    @property
    def models(self) -> list[BilinearModel]:  # type: ignore[override]
        """Those of the runs that are still in the pack."""
        return [task.model for task in self.tasks]

    def _join_tables(self) -> None:
        """Make the runs' weights and squares parts of joint tables."""
        optimisers = [task.compiled()[1] for task in self.tasks]
        self.weights, self.squares = {}, {}
        for name in ("entities", "relations"):
            self.weights[name] = _join([getattr(model, name) for model in self.models], _set_data)
            self.squares[name] = _join([optimiser.squares[name] for optimiser in optimisers], Tensor.set_)
            for model, optimiser in zip(self.models, optimisers, strict=True):
                optimiser.tables[name] = getattr(model, name).data

    def _constants(self) -> dict[str, dict[str, Any]]:
        from staypositive.models.gpu import encode_terms

        (model, optimiser, form), objective = self.tasks[0].compiled(), self.tasks[0].objective
        table, all_rows = model.table, objective.touches_all_rows
        wide = 1 << max(4, (model.dim - 1).bit_length())
        shape = {"DIM": model.dim, "WIDE": wide, "BOUNDED": model.bound == "tanh"}
        terms = {
            "CODE": encode_terms((h, r, t, c < 0) for h, r, t, c in table.terms), "TERMS": len(table.terms),
            "EB": table.entity_blocks, "RB": table.relation_blocks, "ROWS": max(1, 1024 // wide), **shape,
        }  # fmt: skip
        large = 2 if self.plan.step_size >= LARGE_STEP else 1
        examples = {
            "ROWS": large * terms["ROWS"], "num_warps": large * 4,
            "DROPOUT": any(model.dropout > 0 for model in self.models),
            "SUMS": form.penalty is not None and not all_rows, "ALL_ROWS": all_rows,
            "NEGATIVES": objective.negatives_per_fact > 0,
        }  # fmt: skip
        adagrad = {
            "ALL_ROWS": all_rows, "PENALTY": 0 if form.penalty is None else form.power,
            "ROWWISE": optimiser.rowwise, "L2": form.decay > 0 and all_rows,
            "ROUND": model.entities.dtype == torch.bfloat16,
        }  # fmt: skip
        sums = {**shape, "ALL_BLOCKS": table.entity_blocks + table.relation_blocks, "ROWS": 64}
        return {"examples": {**terms, **examples}, "adagrad": {**terms, **adagrad}, "sum_rows": sums}

    def run_epoch(self) -> list[Terms]:
        for model in self.models:
            model.train()
        for order, generator in zip(self.orders, self.generators, strict=True):
            torch.randperm(len(order), generator=generator, out=order)
        self.totals.zero_()
        for start in range(0, len(self.facts), self.chunk * self.batch_size):
            chosen = self.orders[:, start : start + self.chunk * self.batch_size]
            self.part[:, : chosen.shape[1]] = chosen
            self._run(chosen.shape[1])
        facts, negatives, penalty, squares = (self.totals / len(self.facts)).unbind(1)
        return [
            terms_of(task.compiled()[2], task.objective.negatives_per_fact > 0, *sums)
            for task, *sums in zip(self.tasks, facts, negatives, penalty, squares, strict=True)
        ]

    @torch.no_grad()
    def mean_scores(self) -> list[float]:
        model = self.models[0]
        entities = model.form_entity_rows(self.weights["entities"]).mean(1)
        relations = model.form_relation_rows(self.weights["relations"]).mean(1)
        means: list[float] = model.score_rows(entities, relations, entities).tolist()
        return means

    def keep(self, chosen: Sequence[int]) -> None:
        for run, model in enumerate(self.models):
            for name, weights in self.weights.items():
                if run not in chosen:  # a tensor of its own, so that the joint one can be freed
                    _set_data(getattr(model, name), weights[run].clone())
        self.tasks = [self.tasks[run] for run in chosen]
        self._join_tables()
        picked = torch.tensor(chosen, device=self.device)
        for name in self.weights:
            self.gradients[name] = self.gradients[name][: len(chosen)].clone()
        self.sums = self.sums[:, : len(chosen)].contiguous()
        self.losses, self.totals = self.losses[: len(chosen)].clone(), self.totals[picked]
        self.plan_of_run, self.hyperparameters, self.hashes = (
            tensor[picked] for tensor in (self.plan_of_run, self.hyperparameters, self.hashes)
        )
        self.graphs.clear()

    def state(self) -> State:
        (task,), (generator,) = self.tasks, self.generators
        return {
            **under("model", task.model.state_dict()),
            **under("optimiser", task.optimiser.state()),
            "generator": generator.get_state(),
            "steps": self.steps_before,
        }

    def restore(self, state: State) -> None:
        """Continue from where `state` was taken; every tensor stays where recorded launches look for it."""
        copy_into(self.state(), state)
        self.generators[0].set_state(state["generator"])

    def _run(self, count: int) -> None:
        """Take the steps through the first `count` facts of the part at hand."""
        if self.device.type != "cuda":
            self._steps(count)
            return
        if count not in self.graphs:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._warm_up(count)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._steps(count)
            self.graphs[count] = graph
        self.graphs[count].replay()

    def _warm_up(self, count: int) -> None:
        """Compile every kernel by a round of steps that train nothing: with a prior of NaN no step may be taken."""
        kept = [(tensor, tensor.clone()) for tensor in (self.hyperparameters, self.steps_before, self.totals)]
        self.hyperparameters[:, self.kernels.PRIOR_SCORE.value] = torch.nan
        self._steps(count)
        for tensor, value in kept:
            tensor.copy_(value)

    def _steps(self, count: int) -> None:
        for plan, part in enumerate(self.part):
            self.plan.fill(plan, self.facts[part[:count]], self.steps_before)
        self.losses.zero_()
        self.sums.zero_()
        steps = -(-count // self.batch_size)
        for step in range(steps):
            self._step(step, min(self.batch_size, count - step * self.batch_size))
        self.steps_before += steps
        self.totals += self.losses.sum(1, dtype=torch.float64)

    def _step(self, step: int, n_facts: int) -> None:
        kernels, plan, runs = self.kernels, self.plan, len(self.tasks)
        n = n_facts * plan.step_size // plan.batch_size
        counts = plan.rows["entities"], plan.rows["relations"]
        rooms = self.gradients["entities"].shape[1], self.gradients["relations"].shape[1]
        sums, constants = self.sums[step % 2], self.constants
        per = constants["examples"]["ROWS"]
        kernels.examples[(-(-n // per), runs)](
            plan.ids, plan.slots, plan.size, self.plan_of_run, step * plan.step_size, n, n_facts,
            *_both(self.weights), *counts, *_both(self.gradients), *rooms, *_both(plan.found), sums, self.losses,
            self.chunk, step, self.steps_before, self.hyperparameters, self.hashes, **constants["examples"],
        )  # fmt: skip
        if plan.all_rows and constants["adagrad"]["PENALTY"]:
            blocks = constants["examples"]["EB"], constants["examples"]["RB"]
            for offset, size, rows, count in zip((0, blocks[0]), blocks, _both(self.weights), counts, strict=True):
                kernels.sum_rows[(-(-count // 64), runs)](
                    rows, count, sums, OFFSET=offset, BLOCKS=size, **constants["sum_rows"]
                )
        per, share = constants["adagrad"]["ROWS"], max(16, PROGRAMS // runs)
        most = counts if plan.all_rows else (min(2 * n, rooms[0]), min(n, rooms[1]))
        lanes = [min(share, -(-rows // per)) for rows in most]
        kernels.adagrad[(sum(lanes), runs)](
            *_both(self.weights), *_both(self.squares), *_both(self.gradients), *_both(plan.found), plan.starts,
            self.plan_of_run, *counts, *rooms, *(plan.found[name].shape[1] for name in plan.rows), *lanes, sums,
            self.sums[1 - step % 2], self.losses, self.chunk, step, self.steps_before, self.hyperparameters,
            self.hashes,
            **constants["adagrad"],
        )  # fmt: skip


def _both(tables: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return tables["entities"], tables["relations"]


def _set_data(parameter: Tensor, data: Tensor) -> None:
    parameter.data = data


def _join(tables: Sequence[Tensor], put: Any) -> Tensor:
    """Return tables as one, shape (runs, rows, width), and make each a view of its part; one alone stays itself."""
    if len(tables) == 1:
        return tables[0].detach()[None]
    joined = torch.stack([table.detach() for table in tables])
    for table, part in zip(tables, joined, strict=True):
        put(table, part)
    return joined
