"""Sharing the machine's cores with other programs while training on the CPU.

OpenMP threads that wait for each other spin. While a core of its own runs each of them, that is the fastest way to
wait; where other programs use the cores too, a thread spins away the time that the one it waits for would need, and
training slows down far beyond the other programs' share. GNU's OpenMP (libgomp, which torch and numba use on Linux)
spins for 300,000 rounds, and for 100 where it manages more threads than there are cores. So while others use
the cores, a spare team of threads that only sleeps is kept beside the ones that train. Their number does not change,
and with it no result. An engine whose sums do not depend on who does which part is told too, and uses one thread.
Measured by `python -m experiments busy`; see `docs/speed.md`.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

from staypositive.training import Engine

STATE, MAPS = Path("/proc/stat"), Path("/proc/self/maps")
LOOK, LOOKS = 0.1, 4
"""Seconds between two looks at the machine, and how many looks back its use is measured from."""
SHORT = 0.15
"""So many cores, and what the system's clock cannot tell, may be missing before others are said to use them."""
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""How many times a second the system notes what its cores do."""
OWN_CHOICE = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables by which a user decides how threads wait."""


class SharedCores:
    """While it is open, threads that wait for each other spin only as long as nobody else uses their cores.

    `look` is to be called between steps, so that no other thread wakes meanwhile. Nothing happens on a GPU, with one
    thread, where the user has chosen by an environment variable, or on systems that do not tell what their cores do.
    """

    def __init__(self, device: torch.device) -> None:
        self.threads = torch.get_num_threads()
        self.tell: Callable[[bool], None] = lambda is_crowded: None
        """Called when others begin to use the cores, and when they leave them."""
        self._is_crowded = False
        chosen = any(name in os.environ for name in OWN_CHOICE)
        self.is_needed = device.type == "cpu" and self.threads > 1 and not chosen and STATE.exists() and MAPS.exists()
        self._cores = own_cores()
        self._looks: deque[Usage] = deque(maxlen=LOOKS)
        self._next = math.inf
        self._teams: dict[str, SpareTeam] = {}
        self._modules = 0  # imported when libraries were last looked for: a new one may have brought its own
        if self.is_needed:
            self._note()

    def told(self, engine: Engine) -> SharedCores:
        """Let an engine look between its steps, and hear what is seen."""
        engine.call_between_steps(self.look)
        self.tell = engine.share_cores
        return self

    def __enter__(self) -> SharedCores:
        self._next = -math.inf if self.is_needed else math.inf
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next = math.inf
        self._settle(False)

    def look(self) -> None:
        """Look at the cores, if the last time is long enough ago, and let threads wait accordingly."""
        if time.perf_counter() < self._next:
            return
        first = self._looks[0] if self._looks else None
        now = self._note()
        if now is None:
            self._next = math.inf
        elif first is not None and now.clock - first.clock > LOOK / 2:
            unsure = SHORT + len(self._cores) / TICKS / (now.clock - first.clock)
            self._settle(now.by_others_since(first) > len(self._cores) - self.threads + unsure)

    def _note(self) -> Usage | None:
        now = Usage.now(self._cores)
        if now is not None:
            self._looks.append(now)
            self._next = now.clock + LOOK
        return now

    def _settle(self, is_crowded: bool) -> None:
        """Keep a spare team for each OpenMP library that is loaded by now, or none."""
        if is_crowded != self._is_crowded:
            self._is_crowded = is_crowded
            self.tell(is_crowded)
        if is_crowded and (not self._teams or len(sys.modules) != self._modules):
            self._modules = len(sys.modules)
            for path in loaded_libraries() - self._teams.keys():
                self._teams[path] = SpareTeam(path, len(self._cores) + 1)
        while self._teams and not is_crowded:
            self._teams.popitem()[1].end()


class Usage:
    """The time that some cores were in use up to now, and that of this process, in seconds."""

    def __init__(self, busy: float, own: float, clock: float) -> None:
        self.busy, self.own, self.clock = busy, own, clock

    @classmethod
    def now(cls, cores: set[int]) -> Usage | None:
        """Look; None where the system does not tell."""
        try:
            lines = STATE.read_text("ascii").splitlines()
            found = [line.split() for line in lines if re.match(r"cpu\d", line)]
            # User, nice and system time, and interrupts; not what a host takes from a guest: no thread here has it.
            ticks = sum(sum(map(int, line[1:4] + line[6:8])) for line in found if int(line[0][3:]) in cores)
        except (OSError, ValueError):
            return None
        return cls(ticks / TICKS, time.process_time(), time.perf_counter())

    def by_others_since(self, before: Usage) -> float:
        """Return how many cores other programs used since an earlier look."""
        others = (self.busy - before.busy) - (self.own - before.own)
        return others / max(self.clock - before.clock, 1e-9)


class SpareTeam:
    """Threads of one OpenMP library that sleep until the end, so that it counts more threads than cores."""

    def __init__(self, path: str, size: int) -> None:
        self._over, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._sleep, args=(path, size), name="staypositive-spare", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _sleep(self, path: str, size: int) -> None:
        try:
            library, system = ctypes.CDLL(path), ctypes.CDLL(None)
            # A parallel region in which each thread frees nothing: the library keeps its team for the next one.
            library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            library.GOMP_parallel(ctypes.cast(system.free, ctypes.c_void_p), None, size, 0)
        except (OSError, AttributeError):  # not what its name says; nothing is gained, and nothing lost
            pass
        self._ready.set()
        self._over.wait()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def own_cores() -> set[int]:
    """Return the numbers of the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def loaded_libraries() -> set[str]:
    """Return the paths of all copies of libgomp that this process has loaded."""
    try:
        text = MAPS.read_text("utf-8", "surrogateescape")
    except OSError:
        return set()
    return set(re.findall(r"(/\S*/libgomp[^/\s]*\.so[^/\s]*)$", text, re.MULTILINE))
