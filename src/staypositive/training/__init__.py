"""Training: engines that take steps, the loop that drives them, optimisers and callbacks."""

from staypositive.training.engine import Engine, ReferenceEngine
from staypositive.training.engines import ENGINES, build_engine
from staypositive.training.loop import (
    MONITORS,
    Callback,
    Checkpointer,
    EpochRecord,
    TrainingResult,
    TrainingState,
    Validate,
    train,
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
from staypositive.training.state import State
from staypositive.training.stopping import StopSignals
from staypositive.training.streaming import FactStream, can_stream

__all__ = [
    "ADAGRADS",
    "ENGINES",
    "MONITORS",
    "OPTIMISERS",
    "PRECISIONS",
    "AdaGrad",
    "Adam",
    "Callback",
    "Checkpointer",
    "Engine",
    "EpochRecord",
    "FactStream",
    "ProgressBar",
    "ReferenceEngine",
    "RowOptimiser",
    "State",
    "StopSignals",
    "TrainingResult",
    "TrainingState",
    "Validate",
    "build_engine",
    "build_optimiser",
    "can_stream",
    "train",
]
