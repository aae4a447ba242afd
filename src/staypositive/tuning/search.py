"""The search: trials in one or several processes, all kept in one database, so that a stopped search can be resumed.

Each trial is a training whose validations are reported to Optuna: a median pruner ends those that lag behind. A grid
is a queue of all its points, which workers take one by one, so that no point is done twice or left out. A trial whose
process has died is given up, and its setting is queued again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staypositive.errors import DivergedError, InputError, SettingError, StayPositiveError, import_optional
from staypositive.graph import KnowledgeGraph
from staypositive.run import Settings, fit, monitor_of
from staypositive.training import MONITORS, Callback, EpochRecord
from staypositive.tuning.space import Space

SAMPLERS = ("tpe", "grid")


def optuna() -> Any:
    """Return Optuna, whose log is limited to warnings; an error says how to install it."""
    library = import_optional("optuna", "tuning", "tune")
    library.logging.set_verbosity(library.logging.WARNING)
    return library


@dataclass(frozen=True)
class Search:
    """What all workers of a search share; it is sent to other processes."""

    graph: KnowledgeGraph
    space: Space
    study: str
    storage: str
    seed: int = 0
    prune: bool = True

    @property
    def monitor(self) -> str:
        return monitor_of(self.graph, self.space.settings(self.space.first()))

    def load(self, begun: int = 0) -> Any:
        """Return the study; how its sampler draws depends on how many trials were begun before."""
        library = optuna()
        return library.load_study(
            study_name=self.study, storage=self.storage,
            sampler=library.samplers.TPESampler(seed=self.seed + begun),
            pruner=library.pruners.MedianPruner() if self.prune else library.pruners.NopPruner(),
        )  # fmt: skip

    def step(self, study: Any) -> None:
        """Do one trial: the next of the queue, or one that the sampler chooses."""
        with alone(self.storage):
            trial = study.ask()
            trial.set_user_attr("worker", f"{socket.gethostname()}:{os.getpid()}")
        states = optuna().trial.TrialState
        try:
            study.tell(trial, self.run(trial))
        except optuna().TrialPruned:
            study.tell(trial, state=states.PRUNED)
        except BaseException:
            study.tell(trial, state=states.FAIL)
            raise

    def run(self, trial: Any) -> float:
        """Train one setting; return the validation metric of its best epoch."""
        try:
            run = fit(self.graph, self.space.suggested(trial), callbacks=[_Reporting(trial, self.monitor)])
        except DivergedError as error:
            trial.set_user_attr("diverged", True)
            raise optuna().TrialPruned(str(error)) from None
        trial.set_user_attr("best_epoch", run.best_epoch)
        return float(run.history[run.best_epoch - 1].validation[self.monitor])


class _Reporting(Callback):
    """Reports each validation to a trial, and ends it where the pruner says so."""

    def __init__(self, trial: Any, monitor: str) -> None:
        self.trial, self.monitor = trial, monitor

    def on_epoch(self, record: EpochRecord) -> None:
        if record.validation:
            self.trial.report(record.validation[self.monitor], record.epoch)
            if self.trial.should_prune():
                raise optuna().TrialPruned(f"behind the median at epoch {record.epoch}")


@dataclass(frozen=True)
class Tuned:
    """What a search has found: Optuna's study, and the best setting with its validation metric."""

    study: Any
    space: Space
    monitor: str

    @property
    def finished(self) -> int:
        return len(trials_of(self.study, "COMPLETE", "PRUNED"))

    @property
    def best_trial(self) -> Any:
        if not trials_of(self.study, "COMPLETE"):
            raise InputError("no trial of this study is complete: every one diverged or was pruned, or none was run")
        return self.study.best_trial

    @property
    def best(self) -> dict[str, Any]:
        """The best setting, by name, with what was fixed."""
        return {**self.space.fixed, **self.best_trial.params}

    @property
    def settings(self) -> Settings:
        return self.space.settings(self.best)

    @property
    def value(self) -> float:
        return float(self.best_trial.value)


def tune(
    graph: KnowledgeGraph,
    space: Space,
    *,
    trials: int | None = None,
    sampler: str = "tpe",
    study: str = "tune",
    storage: str | os.PathLike[str] = "tune.db",
    jobs: int = 1,
    seed: int = 0,
    prune: bool = True,
    progress: Callable[[int], Any] | None = None,
) -> Tuned:
    """Search until `trials` are finished in all, those of earlier calls with the same study included.

    `storage` is a file, or an address such as `sqlite:///tune.db`. With `sampler="grid"`, the whole grid is done
    unless `trials` says less. `jobs` processes share the work; `progress` is called with 1 as each trial ends.
    """
    if sampler not in SAMPLERS:
        raise SettingError(f"expected a sampler among {', '.join(SAMPLERS)}, got {sampler!r}")
    if jobs < 1 or (trials is not None and trials < 1):
        raise SettingError("jobs and trials must each be at least 1")
    if len(graph.valid.facts) == 0:
        raise InputError(f"tuning chooses by validation, and {graph.name} has no validation facts; split it first")
    address = os.fspath(storage)
    if "://" not in address:
        Path(address).parent.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{address}"
    search = Search(graph, space.checked(), study, address, seed, prune)
    grid = space.grid() if sampler == "grid" else None
    with alone(search.storage):
        opened = _opened(search, sampler)
        _give_up_dead(opened)
        _enqueue(opened, grid or [])
    wanted = (trials or 50) if grid is None else min(trials or len(grid), len(grid))
    begun, left = len(trials_of(opened)), wanted - Tuned(opened, space, search.monitor).finished
    _work(search, range(begun, begun + max(0, left)), jobs, progress)
    return Tuned(search.load(), space, search.monitor)


def _work(search: Search, places: range, jobs: int, progress: Callable[[int], Any] | None) -> None:
    """Do some trials, in this process or in `jobs` others that share the storage."""
    told = progress or (lambda _: None)
    if not places or jobs == 1:
        study = search.load(places.start)
        for _ in places:
            search.step(study)
            told(1)
        return
    jobs = min(jobs, len(places))
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half
    errors = []
    with ProcessPoolExecutor(jobs, context, _start_worker, (search,)) as pool:
        try:
            for done in as_completed([pool.submit(_step, place) for place in places]):
                errors += [done.exception()] if done.exception() else []
                told(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if errors:
        raise StayPositiveError(
            f"{len(errors)} of {len(places)} trials failed, the first with {errors[0]!r}; what was finished is kept"
        )


_OWN: list[Search] = []
"""The search of a worker process."""


def _start_worker(search: Search) -> None:
    import torch

    torch.set_num_threads(1)
    _OWN[:] = [search]


def _step(place: int) -> None:
    (search,) = _OWN
    search.step(search.load(place))


@contextmanager
def alone(storage: str) -> Iterator[None]:
    """Keep other workers, of this command or of another one, from taking a trial meanwhile.

    Optuna takes a waiting trial by a row lock, which SQLite does not have: two could take the same one. The lock is
    SQLite's own on a file beside it, which works everywhere and ends with its process.
    """
    if not storage.startswith("sqlite:///"):
        yield
        return
    file = storage.removeprefix("sqlite:///").partition("?")[0]
    for path in (file, f"{file}.lock"):
        if Path(path).is_symlink():  # which SQLite would follow, and write to what it leads to
            raise InputError(f"{path} is a link, and nothing is written through links; give another --storage")
    with closing(sqlite3.connect(f"{file}.lock", timeout=600, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _opened(search: Search, sampler: str) -> Any:
    """Return the study, new or resumed; one of another search is refused."""
    direction = "maximize" if MONITORS[search.monitor] else "minimize"
    found = optuna().create_study(
        study_name=search.study, storage=search.storage, direction=direction, load_if_exists=True
    )
    said = {"graph": search.graph.fingerprint, "monitor": search.monitor, "sampler": sampler}
    said["space"] = json.dumps(search.space.as_dict(), sort_keys=True)
    for name, value in said.items():
        kept = found.user_attrs.get(name)
        if kept is None:
            found.set_user_attr(name, value)
        elif kept != value:
            raise SettingError(
                f"study {search.study!r} was begun with another {name}; continue with that one, or name a new study"
            )
    return found


def trials_of(study: Any, *states: str) -> list[Any]:
    """Return the trials in some states, such as `COMPLETE` and `PRUNED`, or all."""
    wanted = tuple(optuna().trial.TrialState[state] for state in states)
    return list(study.get_trials(deepcopy=False, states=wanted or None))


def _enqueue(study: Any, grid: list[dict[str, Any]]) -> None:
    """Queue what is neither done, nor being done, nor waiting."""
    trials = trials_of(study, "COMPLETE", "PRUNED", "RUNNING", "WAITING")
    taken = [trial.system_attrs.get("fixed_params") or trial.params for trial in trials]
    for point in grid:
        if point not in taken:
            study.enqueue_trial(point)


def _give_up_dead(study: Any) -> None:
    """Fail the trials whose process on this machine is gone, and queue their settings again."""
    for trial in trials_of(study, "RUNNING"):
        host, _, number = trial.user_attrs.get("worker", "").rpartition(":")
        if host == socket.gethostname() and not _is_alive(int(number)):
            study.tell(trial.number, state=optuna().trial.TrialState.FAIL)
            if trial.params:
                study.enqueue_trial(trial.params)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
