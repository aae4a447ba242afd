"""A process that may grow by so much: a bomb that goes off is an error, not a machine that stands still."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def little_memory(room: int = 2**30) -> Iterator[None]:
    """Let the process grow by so much and no more: a bomb that goes off is a `MemoryError` here.

    Libraries may start a thread for each core, which reserves 8 MB for its stack and 64 MB for what it will allocate.
    """
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + room + (os.cpu_count() or 1) * 72 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
