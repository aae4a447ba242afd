"""Runs: fitting one, what it can do, and its folder on disk."""

from staypositive.run.checkpoint import Checkpoint
from staypositive.run.commands import train_command
from staypositive.run.ensembles import build_ensemble
from staypositive.run.fitting import fit, monitor_of, new_model, resolve_device
from staypositive.run.packaged import is_packaged, packaged_runs
from staypositive.run.run import Run, load_run
from staypositive.run.settings import Settings, make_settings

__all__ = [
    "Checkpoint",
    "Run",
    "Settings",
    "build_ensemble",
    "fit",
    "is_packaged",
    "load_run",
    "make_settings",
    "monitor_of",
    "new_model",
    "packaged_runs",
    "resolve_device",
    "train_command",
]
