"""Training: engines that take steps, the loop that drives them, optimisers and callbacks."""

from staypositive.training.engine import Engine, ReferenceEngine
from staypositive.training.loop import MONITORS, Callback, EpochRecord, TrainingResult, Validate, train
from staypositive.training.optimisers import OPTIMISERS, AdaGrad, Adam, RowOptimiser, build_optimiser
from staypositive.training.progress import ProgressBar

__all__ = [
    "MONITORS",
    "OPTIMISERS",
    "AdaGrad",
    "Adam",
    "Callback",
    "Engine",
    "EpochRecord",
    "ProgressBar",
    "ReferenceEngine",
    "RowOptimiser",
    "TrainingResult",
    "Validate",
    "build_optimiser",
    "train",
]
