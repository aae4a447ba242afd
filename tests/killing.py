"""Trainings that are killed at drawn instants, each until it ends at last, and one beside them that is never killed.

Run by itself: `killing.py FOLDER TRIALS` leaves the runs in FOLDER and prints the number of kills. Its trainings are
forks of it, so that none imports anything anew, and it has one thread, since a fork would copy others half.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before anything imports torch

import staypositive as sp
from conftest import planted_graph

GRAPH = planted_graph(12)
SETTINGS = {"model": "simple", "dim": 3, "epochs": 12, "validate_every": 2, "batch_size": 40, "optimiser": "adam"}


def is_killed(work: Callable[[], object]) -> bool:
    """Do some work in a process of its own; return whether it was killed at it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # of forks with threads
        child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) and status != 0:
        raise SystemExit("a training ended with an error")
    return os.WIFSIGNALED(status)


def train(folder: Path, kill_at: int = 0) -> None:
    """Train with a checkpoint after each epoch, and die at some call of a function; keep the number of calls."""
    calls = itertools.count(1)

    def count(*_: object) -> None:
        if next(calls) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    run = sp.fit(GRAPH, engine="reference", checkpoint=sp.Checkpoint(folder / "checkpoint", 1), **SETTINGS)
    sys.setprofile(None)
    run.save(folder / "run")
    (folder / "calls").write_text(str(next(calls)), "utf-8")


def main() -> None:
    place, trials, draw, kills = Path(sys.argv[1]), int(sys.argv[2]), random.Random(0), 0
    train(place / "first")
    is_killed(partial(train, place / "whole"))
    calls = int((place / "whole" / "calls").read_text("utf-8"))
    for trial in range(trials):
        while is_killed(partial(train, place / str(trial), draw.randrange(1, calls - 1))):
            kills += 1
    print(kills)


if __name__ == "__main__":
    main()
