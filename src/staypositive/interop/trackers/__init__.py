"""Trackers: what training says, epoch by epoch, written to a file, to TensorBoard or to MLflow.

A tracker is a `Callback`; anything else that overrides its three methods is one too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from staypositive.errors import SettingError
from staypositive.interop.trackers.jsonl import JsonLines
from staypositive.interop.trackers.mlflow import MLflow
from staypositive.interop.trackers.tensorboard import TensorBoard
from staypositive.interop.trackers.tracker import Facts, Tracker

TRACKERS: dict[str, Callable[[str, Facts], Tracker]] = {
    "jsonl": lambda where, about: JsonLines(Path(where), about),
    "tensorboard": lambda where, about: TensorBoard(Path(where), about),
    "mlflow": MLflow,
}
"""Each tracker by its name: from where to write and what to say of the training."""


def make_tracker(text: str, about: Facts | None = None) -> Tracker:
    """Return the tracker that `NAME:WHERE` asks for; `about` is what to say of the training, such as its settings.

    >>> make_tracker("jsonl:log.jsonl").path.name
    'log.jsonl'
    """
    name, _, where = text.partition(":")
    if name not in TRACKERS or not where:
        forms = "jsonl:FILE, tensorboard:FOLDER or mlflow:URI"
        raise SettingError(f"expected a tracker such as {forms}, got {text!r}")
    return TRACKERS[name](where, about or {})


__all__ = ["TRACKERS", "JsonLines", "MLflow", "TensorBoard", "Tracker", "make_tracker"]
