"""A run on disk: one folder, which holds all of it, the graph included (see `staypositive.run.hashed`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from staypositive.calibration import Calibrator, calibrator_from_dict
from staypositive.errors import RunError, SettingError
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel
from staypositive.run.checking import filled_model, parsed, require_whole
from staypositive.run.hashed import FolderKind, tensors_from_bytes, tensors_to_bytes, to_json
from staypositive.run.kept_graph import STREAMED, graph_contents, read_graph
from staypositive.run.packaged import packaged_runs
from staypositive.run.settings import Settings
from staypositive.training import EpochRecord

CHECKPOINT_ROOM = "checkpoint"
"""The subfolder of a run's folder in which the state of its training is put aside."""
RUN = FolderKind(
    name="run",
    format=2,  # which has `streamed.json` in place of a graph; a run without one is still written as 1
    roles=(
        "weights.safetensors", "graph.safetensors", "labels.json", STREAMED, "settings.json", "history.json",
        "metrics.json", "provenance.json", "calibrator.json",
    ),
    how_to_make=f"`staypositive train --out` makes one, and the package holds {', '.join(packaged_runs())}",
    rooms=(CHECKPOINT_ROOM,),
)  # fmt: skip
MANIFEST = RUN.manifest
KEPT_PRECISIONS = ("float32", "float16")


@dataclass(frozen=True)
class RunParts:
    """What a run folder holds."""

    graph: KnowledgeGraph
    model: BilinearModel
    settings: Settings
    history: tuple[EpochRecord, ...]
    best_epoch: int
    metrics: dict[str, Any]
    calibrator: Calibrator | None
    provenance: dict[str, Any]


def save_parts(
    folder: str | os.PathLike[str],
    *,
    graph: KnowledgeGraph,
    model: BilinearModel,
    settings: Settings,
    history: Sequence[EpochRecord],
    metrics: dict[str, Any],
    calibrator: Calibrator | None,
    provenance: dict[str, Any],
    precision: str = "float32",
) -> Path:
    """Write all parts, then the manifest that makes them count; `precision` is how weights are kept."""
    folder = Path(folder)
    if precision not in KEPT_PRECISIONS:
        raise SettingError(f"weights are kept as {' or '.join(KEPT_PRECISIONS)}, got {precision!r}")
    kept = getattr(torch, precision)
    weights = {name: weight.to(kept) for name, weight in model.state_dict().items()}
    contents = {
        "weights.safetensors": tensors_to_bytes(weights),
        **graph_contents(graph, folder),
        "settings.json": to_json({"settings": settings.as_dict(), "model": model.settings()}),
        "history.json": history_json(history),
        "metrics.json": to_json(metrics),
        "provenance.json": to_json(provenance | {"graph_notes": list(graph.notes)}),
    }
    if calibrator is not None:
        contents["calibrator.json"] = to_json(calibrator.as_dict())
    RUN.save(folder, contents, provenance.get("version", ""), 2 if STREAMED in contents else 1)
    return folder


def load_parts(folder: str | os.PathLike[str]) -> RunParts:
    """Read and check all parts."""
    folder = Path(folder)
    contents = RUN.load(folder)
    try:
        provenance = parsed(contents["provenance.json"])
        graph = read_graph(contents, provenance, folder)
        settings = parsed(contents["settings.json"])
        chosen = Settings.from_dict(settings["settings"])
        weights = tensors_from_bytes(contents["weights.safetensors"])
        model = filled_model(chosen.model, settings["model"], weights)
        history = read_history(contents["history.json"])
        metrics = parsed(contents["metrics.json"])
        stored = contents.get("calibrator.json")
        best_epoch = int(provenance.pop("best_epoch"))
        calibrator = None if stored is None else calibrator_from_dict(parsed(stored))
        parts = RunParts(graph, model, chosen, history, best_epoch, metrics, calibrator, provenance)
        require_whole(parts)
    except RunError as error:
        raise RunError(f"{folder} is not a readable run: {error}") from error
    except Exception as error:  # hashes say that it is whole, not that it was ever a run
        raise RunError(f"{folder} is not a readable run: {type(error).__name__}: {error}") from error
    return parts


def require_writable(folder: Path) -> None:
    """Find out, before hours of work, whether a run can be kept in a folder."""
    RUN.require_writable(folder)


def history_json(history: Sequence[EpochRecord]) -> bytes:
    """Return a history as a file holds it."""
    return to_json([vars(record) for record in history])


def read_history(data: bytes) -> tuple[EpochRecord, ...]:
    """Return the history that `history_json` wrote."""
    return tuple(EpochRecord(**record) for record in parsed(data))
