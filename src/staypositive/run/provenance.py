"""Where a result comes from: code, data, machine, time, and the commands that make it again."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from staypositive.graph import KnowledgeGraph
from staypositive.models import ENSEMBLE
from staypositive.run.settings import Settings, settings_from, unused
from staypositive.typed import fits

if TYPE_CHECKING:
    from staypositive.run.run import Run


@cache
def code_commit() -> str:
    """Return the git commit of the code that runs, `+changes` if it was altered; empty when it is not in git."""
    folder = Path(__file__).resolve().parents[1]
    if _git(folder, "ls-files", "--error-unmatch", "errors.py") is None:  # a package installed inside another repo
        return ""
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--", ".")
    return "" if commit is None else commit + ("+changes" if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def device_name(device: torch.device) -> str:
    """Return a device as results name it: `cpu (x86_64)`, `cuda (NVIDIA H200)`."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return f"{device.type} ({name})"


def of_graph(graph: KnowledgeGraph) -> dict[str, Any]:
    return {
        "graph": graph.name,
        "graph_sha256": graph.fingerprint,
        "sources": [{"name": source.name, "sha256": source.sha256, "rows": source.rows} for source in graph.sources],
    }


def provenance(graph: KnowledgeGraph, device: torch.device, version: str) -> dict[str, Any]:
    return {
        "version": version,
        "commit": code_commit(),
        **of_graph(graph),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def train_command(data: str, settings: Settings) -> str:
    """Return the `staypositive train` command that has these settings; what is default is not said."""
    words = ["staypositive", "train", data]
    usual = settings_from({"model": settings.model, "objective": settings.objective.name}).keywords()
    usual |= {"model": Settings.model, "objective": None}
    changes = {name: value for name, value in settings.keywords().items() if value != usual[name]}
    for name in unused(settings, changes):  # an earlier version may have kept what has no effect
        del changes[name]
    for name, value in changes.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{flag}")
        else:
            words += [f"--{flag}={value}"] if str(value).startswith("-") else [f"--{flag}", str(value)]
    return shlex.join(words)


def commands(run: Run) -> list[str]:
    """Return what makes a run again: its training, or those of its members and how they are joined."""
    if run.settings.model != ENSEMBLE:
        return [train_command(run.graph.name, run.settings)]
    members: Any = run.provenance.get("members")
    if not fits(members, tuple[dict[str, Any], ...]) or not all(fits(m.get("weight"), float) for m in members):
        return []  # anybody may have written it
    folders = [f"runs/member-{place}" for place in range(len(members))]
    made = [
        f"{train_command(run.graph.name, Settings.from_dict(member.get('settings', {})))} --out {folder}"
        for member, folder in zip(members, folders, strict=True)
    ]
    weights = ",".join(f"{member['weight']:.4g}" for member in members)
    words = ["staypositive", "ensemble", *folders, "--weights", weights]
    if run.model.backward_weight:
        words += ["--backward-weight", f"{run.model.backward_weight:g}"]
    return [*made, shlex.join([*words, "--out", "runs/joined"])]
