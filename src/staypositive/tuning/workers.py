"""Workers of a search: this process alone, or several that share the storage and take trials one by one."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from staypositive.errors import StayPositiveError
from staypositive.tuning.search import Search


def work(search: Search, trials: int, jobs: int, progress: Callable[[int], Any] | None) -> None:
    """Do so many trials, in this process or in `jobs` others."""
    if trials == 0:
        return
    if jobs == 1:
        study = search.load()
        for _ in range(trials):
            search.step(study)
            if progress is not None:
                progress(1)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half
    left = context.Value("i", trials)
    ended = context.Value("i", 0)
    workers = [
        context.Process(target=_serve, args=(search, left, ended, number), daemon=True)
        for number in range(min(jobs, trials))
    ]
    try:
        for worker in workers:
            worker.start()
        _watch(workers, ended, progress)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _watch(workers: list[Any], ended: Any, progress: Callable[[int], Any] | None) -> None:
    told = 0
    while True:
        busy = any(worker.is_alive() for worker in workers)
        now = ended.value
        if progress is not None and now > told:
            progress(now - told)
        told = now
        if not busy:
            break
        time.sleep(0.2)
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        raise StayPositiveError(f"{len(failed)} of {len(workers)} workers failed; what they finished is kept")


def _serve(search: Search, left: Any, ended: Any, number: int) -> None:
    """Take trials until none is left: what one worker process does."""
    import torch

    torch.set_num_threads(1)
    study = search.load(number)
    while True:
        with left.get_lock():
            if left.value == 0:
                return
            left.value -= 1
        search.step(study)
        with ended.get_lock():
            ended.value += 1
