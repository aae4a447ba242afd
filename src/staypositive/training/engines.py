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
from staypositive.training.engine import AutogradStep, Engine, EnginesInTurn, SteppedEngine
from staypositive.training.facts import FactStream, can_stream
from staypositive.training.fused_cpu import FusedCpuStep
from staypositive.training.fused_gpu import FusedGpuEngine
from staypositive.training.optimisers import AdaGrad
from staypositive.training.sharded_store import ShardedRows
from staypositive.training.stores import GramInterval, GramRows, RowStore, WholeTables
from staypositive.training.task import TrainingTask

log = logging.getLogger(__name__)

ENGINES = ("auto", "reference", "fused")
SMALL = 2**25
"""Weights up to which passing over all of them costs less than launching the kernels of a step one by one."""


# -- requirements: each returns why a kind of steps cannot serve a task, or nothing ----------------------------------

Requirement = Callable[[TrainingTask], str]


def _one_process(task: TrainingTask) -> str:
    return "its rows are tables of this process, not fetched from others" if task.world else ""


def _processes(task: TrainingTask) -> str:
    if task.world is None:
        return "there is one process"
    if task.objective.statistic is Statistic.ROWS or task.objective.spread_interval > 1:
        return (
            f"{task.objective.name} cannot be sharded with these options: sharded training takes stay-positive, "
            "second-moment with gram_update_interval 1, and negative-sampling without l2; "
            "train in one process instead"
        )
    return ""


def _on(kind: str, task: TrainingTask) -> str:
    here = task.model.entities.device.type
    return "" if here == kind else f"its tables are on {here}, not on {kind}"


def _in_memory(task: TrainingTask) -> str:
    return "its facts are on disk" if isinstance(task.facts, FactStream) else ""


def _readable(task: TrainingTask) -> str:
    if isinstance(task.facts, FactStream) and not can_stream(task.objective):
        return f"the objective {task.objective.name} has to see all facts first, so that none can be streamed"
    return ""


def _adagrad(task: TrainingTask) -> str:
    return "" if isinstance(task.optimiser, AdaGrad) else "it has AdaGrad alone"


def _exact(task: TrainingTask) -> str:
    return "its statistic is spread at an interval" if task.objective.spread_interval > 1 else ""


def _at_interval(task: TrainingTask) -> str:
    return "" if _exact(task) else "its statistic is spread in every step"


def _all_rows(task: TrainingTask) -> str:
    return "" if task.objective.touches_all_rows else "its steps touch some of the rows only"


def _small(task: TrainingTask) -> str:
    size = sum(table.numel() for table in task.model.parameters())
    return "" if size <= SMALL else "its tables are too large to pass over whole in each step"


def _gram(task: TrainingTask) -> str:
    model = task.model
    if task.objective.statistic is not Statistic.GRAM:
        return "its loss has no Gram matrix"
    is_less = gram_is_less_work(task.batch_size, model.n_entities, model.entity_width())
    return "" if is_less else "scoring every row is less work than a Gram matrix of this width"


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
    """One kind of steps: a store with a step that serves it."""

    engines: tuple[str, ...]
    """The settings of `engine` that may choose it."""
    requirements: tuple[Requirement, ...]
    build: Callable[[str, TrainingTask], Engine]

    def why_not(self, task: TrainingTask) -> str:
        """Return the first reason why it cannot serve a task; empty when it can."""
        return next(filter(None, (requirement(task) for requirement in self.requirements)), "")


def _autograd(store: type[RowStore], name: str, task: TrainingTask) -> Engine:
    return SteppedEngine(name, AutogradStep(store(task)))


def _captured(store: type[RowStore], products: str, name: str, task: TrainingTask) -> Engine:
    return CapturedEngine(name, AutogradStep(store(task)), products)


def _fused_cpu(name: str, task: TrainingTask) -> Engine:
    return SteppedEngine(name, FusedCpuStep(RowStore(task)))


def _fused_gpu(name: str, task: TrainingTask) -> Engine:
    return FusedGpuEngine([task])


_cpu, _gpu = partial(_on, "cpu"), partial(_on, "cuda")
_numba = partial(_compiled, "numba", None, (torch.float32,))
_triton = partial(_compiled, "triton", GPU_BLOCKS, (torch.float32, torch.bfloat16))
_FAST, _ANY = ("auto", "fused"), ("auto", "reference")
KINDS: dict[str, Kind] = {
    "sharded": Kind(ENGINES, (_processes, _in_memory), partial(_autograd, ShardedRows)),
    "autograd-interval": Kind(_ANY, (_one_process, _readable, _at_interval), partial(_autograd, GramInterval)),
    "captured-gram": Kind(
        _FAST, (_one_process, _in_memory, _exact, _gram, _gpu, _adagrad), partial(_captured, GramRows, "high")
    ),
    "autograd-gram": Kind(_FAST, (_one_process, _readable, _exact, _gram), partial(_autograd, GramRows)),
    "fused-gpu": Kind(_FAST, (_one_process, _in_memory, _gpu, _triton), _fused_gpu),
    "fused-cpu": Kind(_FAST, (_one_process, _readable, _cpu, _numba), _fused_cpu),
    "captured": Kind(
        ("auto",), (_one_process, _in_memory, _exact, _all_rows, _gpu, _adagrad), partial(_captured, RowStore, "high")
    ),
    "captured-whole": Kind(
        ("auto",),
        (_one_process, _in_memory, _exact, _small, _gpu, _adagrad),
        partial(_captured, WholeTables, "highest"),
    ),
    "autograd": Kind(_ANY, (_one_process, _readable, _exact), partial(_autograd, RowStore)),
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
    return KINDS[name].build(name, task)


def build_pack(engine: str, tasks: Sequence[TrainingTask]) -> Engine:
    """Build one engine for several runs on the same facts: a pack where the GPU can, else one after the other."""
    if all(choose(engine, task) == "fused-gpu" for task in tasks):
        return FusedGpuEngine(tasks)
    return EnginesInTurn([build_engine(engine, task) for task in tasks])
