"""Runs: fitting one, what it can do, and its folder on disk."""

from staypositive.run.checkpoint import DEFAULT_EVERY, Checkpoint
from staypositive.run.ensembles import CHOICES as ENSEMBLE_CHOICES
from staypositive.run.ensembles import MOST_FACTS as ENSEMBLE_FACTS
from staypositive.run.ensembles import build_ensemble, most_tries
from staypositive.run.fitting import fit, memory_bytes, monitor_of, new_model, training_task
from staypositive.run.folder import is_packaged, packaged_runs, require_writable
from staypositive.run.measuring import ranking_report
from staypositive.run.new_entities import RIDGE, UNOBSERVED_WEIGHT
from staypositive.run.presets import PRESETS, check_given, preset_of, settings_for
from staypositive.run.provenance import train_command
from staypositive.run.run import Run, load_run
from staypositive.run.settings import Declaration, Settings, declarations, make_settings
from staypositive.run.training_folder import TrainingFolder

__all__ = [
    "DEFAULT_EVERY", "ENSEMBLE_CHOICES", "ENSEMBLE_FACTS", "PRESETS", "RIDGE", "UNOBSERVED_WEIGHT", "Checkpoint",
    "Declaration", "Run", "Settings", "TrainingFolder", "build_ensemble", "check_given", "declarations", "fit",
    "is_packaged", "load_run", "make_settings", "memory_bytes", "monitor_of", "most_tries", "new_model",
    "packaged_runs", "preset_of", "ranking_report", "require_writable", "settings_for", "train_command",
    "training_task",
]  # fmt: skip
