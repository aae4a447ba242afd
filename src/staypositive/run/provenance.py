"""Where a result comes from: code, data, machine, time."""

from __future__ import annotations

import platform
import subprocess
import sys
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import torch

from staypositive.graph import KnowledgeGraph


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
    """Return what says which graph it was."""
    return {
        "graph": graph.name,
        "graph_sha256": graph.fingerprint,
        "sources": [{"name": source.name, "sha256": source.sha256, "rows": source.rows} for source in graph.sources],
    }


def provenance(graph: KnowledgeGraph, device: torch.device, version: str) -> dict[str, Any]:
    """Return what a result file must carry beyond its settings."""
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
