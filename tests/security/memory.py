"""A process that may grow by so much: a bomb that goes off is an error, not a machine that stands still."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def little_memory(room: int = 2**30) -> Iterator[None]:
    """Let the process grow by so much and no more: a bomb that goes off is a `MemoryError` here."""
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
