"""Training: the loop, and the engines, steps and row stores that it drives."""

from staypositive.training.engine import AutogradEngine, Engine, SteppedEngine
from staypositive.training.engines import ENGINES, KINDS, build_engine, build_pack, choose
from staypositive.training.loop import (
    MONITORS,
    Callback,
    Checkpointer,
    EpochRecord,
    RunInTraining,
    TrainingResult,
    TrainingState,
    Validate,
    start_runs,
    train,
    train_runs,
)
from staypositive.training.optimisers import (
    ADAGRADS,
    OPTIMISERS,
    PRECISIONS,
    AdaGrad,
    Adam,
    RowOptimiser,
    build_optimiser,
)
from staypositive.training.progress import ProgressBar
from staypositive.training.sharded_store import RowExchange, ShardedRows, Share
from staypositive.training.state import State, copy_into, under, within
from staypositive.training.stopping import StopSignals
from staypositive.training.stores import RowStore
from staypositive.training.task import FactsInMemory, FactStream, TrainingTask, can_stream
from staypositive.training.world import World, is_first, is_launched, open_world, own_device, resolve_device, restarts

__all__ = [
    "ADAGRADS", "ENGINES", "KINDS", "MONITORS", "OPTIMISERS", "PRECISIONS", "AdaGrad", "Adam", "AutogradEngine",
    "Callback", "Checkpointer", "Engine", "EpochRecord", "FactStream", "FactsInMemory", "ProgressBar", "RowExchange",
    "RowOptimiser", "RowStore", "RunInTraining", "ShardedRows", "Share", "State", "SteppedEngine",
    "StopSignals", "TrainingResult", "TrainingState", "TrainingTask", "Validate", "World", "build_engine",
    "build_optimiser", "build_pack", "can_stream", "choose", "copy_into", "is_first", "is_launched", "open_world",
    "own_device", "resolve_device", "restarts", "start_runs", "train", "train_runs", "under", "within",
]  # fmt: skip
