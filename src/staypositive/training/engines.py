"""Which kinds of steps there are, what each can serve, and which one a training takes."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch

from staypositive.errors import SettingError
from staypositive.models import BlockModel
from staypositive.models.block import GPU_BLOCKS
from staypositive.objectives import Statistic, gram_is_less_work
from staypositive.training.captured import CapturedEngine
from staypositive.training.engine import AutogradEngine, Engine, EnginesInTurn
from staypositive.training.fused_cpu import FusedCpuEngine
from staypositive.training.fused_gpu import FusedGpuEngine
from staypositive.training.optimisers import AdaGrad
from staypositive.training.sharded_store import ShardedRows
from staypositive.training.stores import GramInterval, GramRows, RowStore, WholeTables
from staypositive.training.task import FactStream, TrainingTask, can_stream

log = logging.getLogger(__name__)

ENGINES = ("auto", "reference", "fused")
SMALL = 2**25
"""Weights up to which passing over all of them costs less than launching the kernels of a step one by one."""


# -- requirements: each returns why a kind of steps cannot serve a task, or nothing ----------------------------------

Requirement = Callable[[TrainingTask], str]


def _unless(serves: Callable[[TrainingTask], bool], reason: str) -> Requirement:
    return lambda task: "" if serves(task) else reason.format(task=task)


def _on(kind: str) -> Requirement:
    where = "its tables are on {task.model.entities.device.type}, not on " + kind
    return _unless(lambda task: task.model.entities.device.type == kind, where)


_one_process = _unless(
    lambda task: task.world is None, "its rows are tables of this process, not fetched from others"
)
_processes = _unless(lambda task: task.world is not None, "there is one process")
_shardable = _unless(
    lambda task: task.objective.statistic is not Statistic.ROWS and task.objective.spread_interval == 1,
    "{task.objective.name} cannot be sharded with these options: sharded training takes stay-positive, "
    "second-moment with gram_update_interval 1, and negative-sampling without l2; train in one process instead",
)
_in_memory = _unless(lambda task: not isinstance(task.facts, FactStream), "its facts are on disk")
_readable = _unless(
    lambda task: not isinstance(task.facts, FactStream) or can_stream(task.objective),
    "the objective {task.objective.name} has to see all facts first, so that none can be streamed",
)
_adagrad = _unless(lambda task: isinstance(task.optimiser, AdaGrad), "it has AdaGrad alone")
_exact = _unless(lambda task: task.objective.spread_interval == 1, "its statistic is spread at an interval")
_at_interval = _unless(lambda task: task.objective.spread_interval > 1, "its statistic is spread in every step")
_all_rows = _unless(lambda task: task.objective.touches_all_rows, "its steps touch some of the rows only")
_small = _unless(
    lambda task: sum(table.numel() for table in task.model.parameters()) <= SMALL,
    "its tables are too large to pass over whole in each step",
)
_gram = _unless(lambda task: task.objective.statistic is Statistic.GRAM, "its loss has no Gram matrix")
_gram_is_less = _unless(
    lambda task: gram_is_less_work(task.batch_size, task.model.n_entities, task.model.entity_width()),
    "scoring every row is less work than a Gram matrix of this width",
)


def _compiled(package: str, most_blocks: int | None, dtypes: tuple[torch.dtype, ...], task: TrainingTask) -> str:
    model = task.model
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed (pip install {package})"
    if not isinstance(model, BlockModel):
        return "it serves the block family (distmult, cp, simple, complex, analogy, quaternion) alone"
    if most_blocks is not None and model.table.most_blocks > most_blocks:
        return f"its kernels address {most_blocks} blocks per row; this model has {model.table.most_blocks}"
    if task.objective.logistic_form(task.batches) is None:
        return f"it has no step for the objective {task.objective.name}"
    if reason := _adagrad(task):
        return reason
    if model.entities.dtype not in dtypes:
        return f"it keeps rows as {' or '.join(str(dtype).removeprefix('torch.') for dtype in dtypes)} alone"
    if task.weights is not None:
        return "its steps count all facts alike, and these have weights; use engine auto or reference"
    return ""


# -- the table -------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """One kind of steps: a store with steps that it serves."""

    engines: tuple[str, ...]
    """The settings of `engine` that may choose it."""
    requirements: tuple[Requirement, ...]
    build: Callable[[TrainingTask], Engine]

    def why_not(self, task: TrainingTask) -> str:
        """Return the first reason why it cannot serve a task; empty when it can."""
        return next(filter(None, (requirement(task) for requirement in self.requirements)), "")


_cpu, _gpu = _on("cpu"), _on("cuda")
_numba = partial(_compiled, "numba", None, (torch.float32,))
_triton = partial(_compiled, "triton", GPU_BLOCKS, (torch.float32, torch.bfloat16))
_CAPTURABLE = (_one_process, _in_memory, _exact, _gpu, _adagrad)
_FAST, _ANY = ("auto", "fused"), ("auto", "reference")
KINDS: dict[str, Kind] = {
    "sharded": Kind(ENGINES, (_processes, _shardable, _in_memory), lambda task: AutogradEngine(ShardedRows(task))),
    "autograd-interval": Kind(
        _ANY, (_one_process, _readable, _at_interval), lambda task: AutogradEngine(GramInterval(task))
    ),
    "captured-gram": Kind(
        _FAST, (*_CAPTURABLE, _gram, _gram_is_less), lambda task: CapturedEngine(GramRows(task), "high")
    ),
    "autograd-gram": Kind(
        _FAST, (_one_process, _readable, _exact, _gram, _gram_is_less), lambda task: AutogradEngine(GramRows(task))
    ),
    "fused-gpu": Kind(_FAST, (_one_process, _in_memory, _gpu, _triton), lambda task: FusedGpuEngine([task])),
    "fused-cpu": Kind(_FAST, (_one_process, _readable, _cpu, _numba), lambda task: FusedCpuEngine(RowStore(task))),
    "captured": Kind(("auto",), (*_CAPTURABLE, _all_rows), lambda task: CapturedEngine(RowStore(task), "high")),
    "captured-whole": Kind(
        ("auto",), (*_CAPTURABLE, _small), lambda task: CapturedEngine(WholeTables(task), "highest")
    ),
    "autograd": Kind(_ANY, (_one_process, _readable, _exact), lambda task: AutogradEngine(RowStore(task))),
}
"""Every kind of steps by its name; the first that serves is taken."""


def choose(engine: str, task: TrainingTask) -> str:
    """Return the name of the kind that a task's steps are of: `auto`, `reference` (autograd) or `fused` decides.

    All kinds take the same steps, to rounding. An engine that has no kind for the task is an error that says why.
    """
    if engine not in ENGINES:
        raise SettingError(f"expected an engine among {', '.join(ENGINES)}, got {engine!r}")
    reasons = {name: kind.why_not(task) for name, kind in KINDS.items() if engine in kind.engines}
    for name, reason in reasons.items():
        if not reason:
            return name
    if task.world is not None:
        raise SettingError(reasons["sharded"])
    if engine == "fused":
        on = "fused-gpu" if task.model.entities.device.type == "cuda" else "fused-cpu"
        raise SettingError(f"the fused engine cannot be used here: {reasons[on]}")
    raise SettingError(reasons["autograd"])


def build_engine(engine: str, task: TrainingTask) -> Engine:
    """Build the engine that a task's steps are taken by; `engine` is one of `ENGINES`, or the name of a kind."""
    name = engine if engine in KINDS else choose(engine, task)
    log.info("engine: %s", name)
    built = KINDS[name].build(task)
    built.name = name
    return built


def build_pack(engine: str, tasks: Sequence[TrainingTask]) -> Engine:
    """Build one engine for several runs on the same facts: a pack where the GPU can, else one after the other."""
    if all(choose(engine, task) == "fused-gpu" for task in tasks):
        return FusedGpuEngine(tasks)
    return EnginesInTurn([build_engine(engine, task) for task in tasks])
