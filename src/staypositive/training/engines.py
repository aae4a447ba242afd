"""Choosing an engine: the fastest that takes the wanted steps, or the one that was asked for."""

from __future__ import annotations

import logging

from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel
from staypositive.objectives import Objective, SecondMoment
from staypositive.training.captured import GraphedBatchEngine, GraphedEngine, GraphedMomentEngine
from staypositive.training.engine import Engine, ReferenceEngine
from staypositive.training.fused import why_not
from staypositive.training.fused_cpu import FusedCpuEngine
from staypositive.training.fused_gpu import FusedGpuEngine
from staypositive.training.moment_engine import MomentEngine, SpreadEngine
from staypositive.training.optimisers import RowOptimiser
from staypositive.training.streaming import FactStream, StreamedCpuEngine, StreamedEngine

log = logging.getLogger(__name__)

ENGINES = ("auto", "reference", "fused")


def build_engine(
    name: str,
    model: BilinearModel,
    objective: Objective,
    optimiser: RowOptimiser,
    facts: Tensor | FactStream,
    batch_size: int,
    seed: int,
    weights: Tensor | None = None,
) -> Engine:
    """Build an engine: `reference` (autograd), `fused` (compiled; an error where it cannot be), or `auto`.

    All take the same steps, to rounding. `weights` say what each fact's loss counts; compiled steps have none. Facts
    on disk are streamed, on the CPU.
    """
    if name not in ENGINES:
        raise SettingError(f"expected an engine among {', '.join(ENGINES)}, got {name!r}")
    if isinstance(facts, FactStream):
        return _build_streamed(name, model, objective, optimiser, facts, batch_size, seed)
    on_gpu = facts.device.type == "cuda"
    fused: type[FusedGpuEngine | FusedCpuEngine] = FusedGpuEngine if on_gpu else FusedCpuEngine
    by_moments = MomentEngine.serves(model, objective, batch_size)
    reason = "" if by_moments else why_not(fused, model, objective, optimiser)
    if weights is not None and not by_moments:
        reason = "its steps count all facts alike, and these have weights; use engine auto or reference"
    if name == "fused" and reason:
        raise SettingError(f"the fused engine cannot be used here: {reason}")
    kind: type[FusedGpuEngine | ReferenceEngine] = ReferenceEngine
    if isinstance(objective, SecondMoment) and not objective.touches_all_rows:
        kind = SpreadEngine
    elif name != "reference" and by_moments:
        kind = GraphedMomentEngine if GraphedEngine.can_capture(objective, optimiser, facts.device) else MomentEngine
    elif name != "reference" and not reason:
        kind = fused
    elif name == "auto" and GraphedEngine.can_capture(objective, optimiser, facts.device):
        kind = GraphedEngine
    elif name == "auto" and GraphedBatchEngine.serves(model, optimiser, facts.device):
        kind = GraphedBatchEngine
    log.info("engine: %s%s", kind.__name__, f" ({reason})" if reason else "")
    engine = kind(model, objective, optimiser, facts, batch_size, seed)
    if weights is not None:
        assert isinstance(engine, ReferenceEngine)
        engine.set_sample_weights(weights)
    return engine


def _build_streamed(
    name: str,
    model: BilinearModel,
    objective: Objective,
    optimiser: RowOptimiser,
    stream: FactStream,
    batch_size: int,
    seed: int,
) -> Engine:
    reason = why_not(FusedCpuEngine, model, objective, optimiser)
    if name == "fused" and reason:
        raise SettingError(f"the fused engine cannot be used here: {reason}")
    kind = StreamedEngine if name == "reference" or reason else StreamedCpuEngine
    log.info("engine: %s%s", kind.__name__, f" ({reason})" if reason else "")
    return kind(model, objective, optimiser, stream, batch_size, seed)
