"""Whether the cores that a training counts on are free.

Threads that share a kernel wait for each other after each. With one of them waiting for a core, all do: on a busy
machine two threads can be far slower than one.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import torch

log = logging.getLogger(__name__)

STATE = Path("/proc/stat")
LOOK = 0.1
"""Seconds to look for."""


def free_cores() -> float | None:
    """Return how many cores nobody uses, by Linux's own count over a moment; None where that cannot be seen."""
    try:
        before, start = _idle_ticks(), time.perf_counter()
        time.sleep(LOOK)
        idle, seconds = _idle_ticks() - before, time.perf_counter() - start
    except (OSError, ValueError, IndexError):
        return None
    return idle / 100 / seconds  # USER_HZ: a tick is a hundredth of a second


def warn_if_busy(device: torch.device) -> None:
    """Say so where training on the CPU asks for more threads than there are free cores."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        return
    free = free_cores()
    if free is not None and free < threads - 0.7:
        log.warning(
            "%d threads are to train, and other programs leave about %.1f cores: fewer threads can be far faster "
            "(threads=1, --threads 1)", threads, free,
        )  # fmt: skip


def _idle_ticks() -> int:
    first = STATE.read_text("utf-8").splitlines()[0].split()
    return int(first[4]) + int(first[5])  # idle, and waiting for a disk
