"""Starting processes that work together, and one that works with itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from staypositive.sharded import World, open_world

TESTS = Path(__file__).resolve().parent


def torchrun(
    processes: int, *arguments: str | Path, restarts: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script, or `-m module`, in several processes of this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [f"--max-restarts={restarts}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=900, env=os.environ | environment)


@contextmanager
def with_environment(**more: str) -> Iterator[None]:
    """Let the tests' own process have what torchrun would say to the only process that it starts."""
    given = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (given | more).items():
            patch.setenv(name, value)
        yield


@contextmanager
def world_of_one(device: str = "cpu") -> Iterator[World]:
    """Let the tests' own process be a world."""
    with with_environment(), open_world(device) as world:
        yield world
