"""A run on disk: one folder, written atomically, versioned and hashed. No pickle anywhere.

`run.json` names every other file with its SHA-256. A save writes the new files beside the old ones (a file's name
holds its hash) and then replaces `run.json`, which is the moment the save counts; files no longer named are removed
last. A reader thus always finds one whole run, whenever a save was cut short.

Compatibility: a folder of format N is read by every version of staypositive whose format is N or later.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from staypositive.calibration import Calibrator, calibrator_from_dict
from staypositive.errors import RunError, SettingError, StayPositiveError
from staypositive.files import sha256_bytes, write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel, build_model
from staypositive.run.kept_graph import STREAMED, graph_contents, read_graph
from staypositive.run.packaged import packaged_runs
from staypositive.run.settings import Settings
from staypositive.training import EpochRecord

FORMAT = 2
"""2 has `streamed.json` in place of a graph; a run without one is still written as 1."""
MANIFEST = "run.json"
KEPT_PRECISIONS = ("float32", "float16")
ROLES = (
    "weights.safetensors", "graph.safetensors", "labels.json", STREAMED, "settings.json", "history.json",
    "metrics.json", "provenance.json", "calibrator.json",
)  # fmt: skip
_HASHED = "|".join(rf"{stem}\.[0-9a-f]{{12}}\.{suffix}" for stem, suffix in (role.split(".") for role in ROLES))
_OUR_NAMES = re.compile(rf"(?:{_HASHED})|\.(?:run\.json|{_HASHED})\.[^.]+\.part")


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
    from safetensors.torch import save as to_bytes

    folder = Path(folder)
    require_own(folder)
    if precision not in KEPT_PRECISIONS:
        raise SettingError(f"weights are kept as {' or '.join(KEPT_PRECISIONS)}, got {precision!r}")
    kept = getattr(torch, precision)
    weights = {name: weight.detach().cpu().to(kept).contiguous() for name, weight in model.state_dict().items()}
    kept_graph = graph_contents(graph, folder)
    contents = {
        "weights.safetensors": to_bytes(weights),
        **{role: part if isinstance(part, bytes) else _json(part) for role, part in kept_graph.items()},
        "settings.json": _json({"settings": settings.as_dict(), "model": model.settings()}),
        "history.json": _json([vars(record) for record in history]),
        "metrics.json": _json(metrics),
        "provenance.json": _json(provenance | {"graph_notes": list(graph.notes)}),
    }
    if calibrator is not None:
        contents["calibrator.json"] = _json(calibrator.as_dict())
    try:
        files = {role: _write_hashed(folder, role, data) for role, data in contents.items()}
        manifest = {
            "format": FORMAT if STREAMED in contents else 1,
            "writer": provenance.get("version", ""),
            "files": files,
        }
        write_atomic(folder / MANIFEST, _json(manifest | {"sha256": sha256_bytes(_json(manifest))}))
    except OSError as error:
        raise RunError(f"cannot write the run to {folder}: {error.strerror or error}") from error
    _remove_stale(folder, {entry["file"] for entry in files.values()})
    return folder


def load_parts(folder: str | os.PathLike[str]) -> RunParts:
    """Read and check all parts."""
    from safetensors.torch import load as from_bytes

    folder = Path(folder)
    files = _manifest(folder)
    contents = {role: _read_checked(folder, role, entry) for role, entry in files.items()}
    try:
        provenance = json.loads(contents["provenance.json"])
        graph = read_graph(contents, provenance, folder)
        settings = json.loads(contents["settings.json"])
        chosen = Settings.from_dict(settings["settings"])
        model = build_model(chosen.model, **settings["model"])
        model.load_state_dict(from_bytes(contents["weights.safetensors"]))
        model.eval()
        history = tuple(EpochRecord(**record) for record in json.loads(contents["history.json"]))
        metrics = json.loads(contents["metrics.json"])
        stored = contents.get("calibrator.json")
        best_epoch = int(provenance.pop("best_epoch"))
        calibrator = None if stored is None else calibrator_from_dict(json.loads(stored))
    except RunError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, StayPositiveError) as error:
        raise RunError(f"{folder} is not a readable run: {type(error).__name__}: {error}") from error
    return RunParts(graph, model, chosen, history, best_epoch, metrics, calibrator, provenance)


def require_own(folder: Path) -> None:
    """Never mix a run into somebody's other files."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; a run needs a folder")
    if folder.is_dir() and not (folder / MANIFEST).exists() and any(folder.iterdir()):
        left = [path.name for path in folder.iterdir() if not _is_ours(path.name)]
        if left:
            raise RunError(f"{folder} holds files that are not a run's ({left[0]}, ...); choose another folder")


def require_writable(folder: Path) -> None:
    """Find out, before hours of work, whether a run can be kept in a folder."""
    require_own(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror or error}") from error


def _is_ours(name: str) -> bool:
    """Whether a file is of a save, finished or cut short; nobody else's may ever match."""
    return _OUR_NAMES.fullmatch(name) is not None


def _write_hashed(folder: Path, role: str, data: bytes) -> dict[str, Any]:
    digest = sha256_bytes(data)
    stem, suffix = role.split(".")
    name = f"{stem}.{digest[:12]}.{suffix}"
    if not (folder / name).exists() or (folder / name).read_bytes() != data:
        write_atomic(folder / name, data)
    return {"file": name, "sha256": digest, "bytes": len(data)}


def _remove_stale(folder: Path, named: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in named | {MANIFEST} and path.is_file() and _is_ours(path.name):
            path.unlink(missing_ok=True)


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        found, files = int(manifest["format"]), dict(manifest["files"])
    except FileNotFoundError:
        raise RunError(
            f"there is no run in {folder} (no {MANIFEST}); `staypositive train --out` makes one, "
            f"and the package holds {', '.join(packaged_runs())}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder / MANIFEST} is damaged: {type(error).__name__}: {error}") from None
    if found > FORMAT:
        raise RunError(
            f"{folder} has run format {found}, written by staypositive {manifest.get('writer')}; "
            f"this one reads up to {FORMAT}. Upgrade staypositive"
        )
    stated = manifest.pop("sha256", "")
    if stated != sha256_bytes(_json(manifest)):
        raise RunError(f"{folder / MANIFEST} is damaged: its contents do not have the hash that it states")
    if not set(files) <= set(ROLES) or not all(isinstance(entry, dict) for entry in files.values()):
        raise RunError(f"{folder / MANIFEST} is damaged: it names files that no run has")
    return files


def _read_checked(folder: Path, role: str, entry: dict[str, Any]) -> bytes:
    name = str(entry.get("file", ""))
    if not name or Path(name).name != name:
        raise RunError(f"{folder / MANIFEST} names a file outside the run for {role}: {name!r}")
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise RunError(f"{folder / name} cannot be read: {error.strerror or error}") from None
    if sha256_bytes(data) != entry.get("sha256"):
        raise RunError(
            f"{folder / name} is damaged: expected {entry.get('bytes')} bytes of SHA-256 {entry.get('sha256')}, "
            f"found {len(data)} bytes of {sha256_bytes(data)}"
        )
    return data


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
