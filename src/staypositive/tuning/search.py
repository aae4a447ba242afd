"""The search: trials in one or several processes, all kept in one SQLite file, so that a stopped search goes on.

Each trial is a training whose validations are reported to Optuna: a median pruner ends those that lag behind. A grid
is a queue of all its points, which workers take one by one, so that no point is done twice or left out. A trial whose
process has died is given up, and its setting put into the queue again.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staypositive.errors import DivergedError, InputError, SettingError
from staypositive.graph import KnowledgeGraph
from staypositive.run import Settings, fit, monitor_of
from staypositive.training import MONITORS, Callback, EpochRecord
from staypositive.tuning.space import Range, Space

SAMPLERS = ("tpe", "grid")


def optuna() -> Any:
    """Return Optuna, speaking of warnings alone; an error says how to get it."""
    try:
        import optuna as library
    except ImportError:
        raise InputError("tuning needs optuna: pip install 'staypositive[tune]'") from None
    library.logging.set_verbosity(library.logging.WARNING)
    return library


@dataclass(frozen=True)
class Search:
    """What all workers of a search share; it goes to other processes as it is."""

    graph: KnowledgeGraph
    space: Space
    study: str
    storage: str
    seed: int = 0
    prune: bool = True

    @property
    def monitor(self) -> str:
        """The validation metric that trials are judged by."""
        return monitor_of(self.graph, self.space.settings({n: _first(c) for n, c in self.space.searched.items()}))

    def load(self, worker: int = 0) -> Any:
        """Return the study as one worker sees it; workers draw differently."""
        library = optuna()
        return library.load_study(
            study_name=self.study,
            storage=self.storage,
            sampler=library.samplers.TPESampler(seed=self.seed + worker),
            pruner=library.pruners.MedianPruner() if self.prune else library.pruners.NopPruner(),
        )

    def step(self, study: Any) -> None:
        """Do one trial: the next of the queue, or one that the sampler chooses."""
        library = optuna()
        states = library.trial.TrialState
        with alone(self.storage):
            trial = study.ask()
            trial.set_user_attr("worker", _worker())
        try:
            study.tell(trial, self.run(trial))
        except library.TrialPruned:
            study.tell(trial, state=states.PRUNED)
        except BaseException:
            study.tell(trial, state=states.FAIL)
            raise

    def run(self, trial: Any) -> float:
        """Train one setting; return the validation metric of its best epoch."""
        library = optuna()
        settings = self.space.settings({name: _suggested(trial, name, c) for name, c in self.space.searched.items()})
        watcher = _Reporting(trial, self.monitor, library.TrialPruned)
        try:
            run = fit(self.graph, settings, callbacks=[watcher])
        except DivergedError as error:
            trial.set_user_attr("diverged", True)
            raise library.TrialPruned(str(error)) from None
        trial.set_user_attr("best_epoch", run.best_epoch)
        return float(run.history[run.best_epoch - 1].validation[self.monitor])


class _Reporting(Callback):
    """Tells a trial of each validation, and ends it where the pruner says so."""

    def __init__(self, trial: Any, monitor: str, pruned: type[Exception]) -> None:
        self.trial, self.monitor, self.pruned = trial, monitor, pruned

    def on_epoch(self, record: EpochRecord) -> None:
        """Report the epoch, if it was validated."""
        if record.validation:
            self.trial.report(record.validation[self.monitor], record.epoch)
            if self.trial.should_prune():
                raise self.pruned(f"behind the median at epoch {record.epoch}")


@dataclass(frozen=True)
class Tuned:
    """What a search has found; `study` is Optuna's."""

    study: Any
    space: Space
    monitor: str
    finished: int

    @property
    def settings(self) -> Settings:
        """The best setting."""
        return self.space.settings(self.study.best_params)

    @property
    def value(self) -> float:
        """The validation metric of the best setting."""
        return float(self.study.best_value)


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
    """Search until so many trials are finished in all, those of earlier calls with the same study included.

    `storage` is a file, or an address such as `sqlite:///tune.db`. With `sampler="grid"`, the whole grid is done
    unless `trials` says less. `jobs` processes share the work; `progress` is told of each trial that ends.
    """
    from staypositive.tuning.workers import work

    if sampler not in SAMPLERS:
        raise SettingError(f"expected a sampler among {', '.join(SAMPLERS)}, got {sampler!r}")
    if jobs < 1 or (trials is not None and trials < 1):
        raise SettingError("jobs and trials must each be at least 1")
    if len(graph.valid.facts) == 0:
        raise InputError(f"tuning chooses by validation, and {graph.name} has no validation facts; split it first")
    search = Search(graph, space.checked(), study, _address(storage), seed, prune)
    grid = space.grid() if sampler == "grid" else None
    with alone(search.storage):
        opened = _opened(search, sampler)
        _give_up_dead(opened)
        _enqueue(opened, grid or [])
    done = len(_finished(opened))
    wanted = (50 if grid is None else len(grid)) if trials is None else trials
    if grid is not None:
        wanted = min(wanted, len(grid))
    work(search, max(0, wanted - done), jobs, progress)
    opened = search.load()
    return Tuned(opened, space, search.monitor, len(_finished(opened)))


@contextmanager
def alone(storage: str) -> Iterator[None]:
    """Keep other workers, of this command or of another one, from taking a trial meanwhile.

    Optuna takes a waiting trial by a row lock, which SQLite does not have: two could take the same one. The lock is
    SQLite's own on a file beside it, since that works everywhere and ends with its process.
    """
    file, is_file = storage.removeprefix("sqlite:///").partition("?")[0], storage.startswith("sqlite:///")
    if not is_file:
        yield
        return
    for path in (file, f"{file}.lock"):
        if Path(path).is_symlink():  # which SQLite would follow, and write to what it leads to
            raise InputError(f"{path} is a link, and nothing is written through links; give another --storage")
    with closing(sqlite3.connect(f"{file}.lock", timeout=600, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _address(storage: str | os.PathLike[str]) -> str:
    text = os.fspath(storage)
    if "://" in text:
        return text
    Path(text).parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{text}"


def _opened(search: Search, sampler: str) -> Any:
    """Return the study, new or taken up again; one of another search is refused."""
    library = optuna()
    direction = "maximize" if MONITORS[search.monitor] else "minimize"
    found = library.create_study(
        study_name=search.study, storage=search.storage, direction=direction, load_if_exists=True
    )
    said = {
        "graph": search.graph.fingerprint,
        "monitor": search.monitor,
        "sampler": sampler,
        "space": json.dumps(search.space.as_dict(), sort_keys=True),
    }
    for name, value in said.items():
        kept = found.user_attrs.get(name)
        if kept is None:
            found.set_user_attr(name, value)
        elif kept != value:
            raise SettingError(
                f"study {search.study!r} was begun with another {name}; go on with that one, or name a new study"
            )
    return found


def _finished(study: Any) -> list[Any]:
    states = optuna().trial.TrialState
    found: list[Any] = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    return found


def _enqueue(study: Any, grid: list[dict[str, Any]]) -> None:
    """Put into the queue what is neither done, nor being done, nor waiting."""
    states = optuna().trial.TrialState
    taken = [
        trial.system_attrs.get("fixed_params") or trial.params
        for trial in study.get_trials(deepcopy=False)
        if trial.state != states.FAIL
    ]
    for point in grid:
        if point not in taken:
            study.enqueue_trial(point)


def _give_up_dead(study: Any) -> None:
    """Fail the trials whose process on this machine is gone, and queue their settings again."""
    states = optuna().trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        host, _, number = trial.user_attrs.get("worker", "").rpartition(":")
        if host == socket.gethostname() and not _is_alive(int(number)):
            study.tell(trial.number, state=states.FAIL)
            if trial.params:
                study.enqueue_trial(trial.params)


def _worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _first(choice: tuple[Any, ...] | Range) -> Any:
    return choice.low if isinstance(choice, Range) else choice[0]


def _suggested(trial: Any, name: str, choice: tuple[Any, ...] | Range) -> Any:
    if not isinstance(choice, Range):
        return trial.suggest_categorical(name, choice)
    whole = isinstance(choice.low, int) and isinstance(choice.high, int)
    suggest = trial.suggest_int if whole else trial.suggest_float
    return suggest(name, choice.low, choice.high, log=choice.log)
