"""Stopping `train` and going on: signals, what is in the way of a training, and the command that goes on."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import typer

from staypositive.errors import SettingError, StoppedError
from staypositive.graph import KnowledgeGraph
from staypositive.run import Run, Settings, load_run
from staypositive.run.checkpoint import CHECKPOINT, differences, epochs_done, identity_of
from staypositive.run.folder import CHECKPOINT_ROOM, RUN, require_writable
from staypositive.training import Callback, EpochRecord

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While this is entered, the first Ctrl-C or SIGTERM is a wish to stop, which calling this object tells.

    A second one is what it always was: it ends the process at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether there is a wish to stop."""
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.number or 0)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # who started us wants us to go on
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._give_back()
        with suppress(OSError):  # a handler may come amidst a print, so it does not print
            os.write(2, b"\nstopping after this epoch; once more to stop at once\n")

    def _give_back(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())


@contextmanager
def stoppable(folder: Path) -> Iterator[StopSignals]:
    """Say how to go on with the training of a folder that is stopped within, and exit as a signal would."""
    stop = StopSignals()
    try:
        yield stop
    except StoppedError as error:
        typer.echo(f"{error}; go on with: {resume_command()}", err=True)
        raise typer.Exit(stop.exit_code) from None
    except KeyboardInterrupt:
        if CHECKPOINT.is_in(folder / CHECKPOINT_ROOM):
            typer.echo(f"go on with: {resume_command()}", err=True)
        raise


def resume_command() -> str:
    """Return the command that goes on with what this one began."""
    kept = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
    return shlex.join(["staypositive", *kept, "--resume"])


def require_free(folder: Path, force: bool) -> None:
    """Find out, before the work begins, whether a run can be kept in a folder, and what it would replace."""
    if RUN.is_in(folder) and not force:
        raise SettingError(f"{folder} already holds a run; use --force to replace it, or another --out")
    done = 0 if force else epochs_done(folder / CHECKPOINT_ROOM)
    if done:
        raise SettingError(
            f"{folder} holds a training that was stopped after epoch {done}; `train --resume` goes on with it, "
            "--force begins anew"
        )
    require_writable(folder)


def clear_checkpoint(folder: Path) -> None:
    """Drop the state of a training that has ended or is to begin anew."""
    CHECKPOINT.clear(folder / CHECKPOINT_ROOM)


class WhereToBegin(Callback):
    """Says where `--resume` finds a training: after which epoch, once the checkpoint is known to be of this one."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say

    def on_start(self, epochs: int) -> None:
        """Say that there is nothing to go on from."""
        if not CHECKPOINT.is_in(self.folder / CHECKPOINT_ROOM):
            self.say(f"no checkpoint in {self.folder}, so training begins")

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        """Say after which epoch training goes on."""
        self.say(f"going on after epoch {len(history)}")


def finished_run(folder: Path, settings: Settings, graph: KnowledgeGraph) -> Run | None:
    """Return the run of a folder in which nothing is left to do; None where training has yet to end.

    A finished run of another training is an error that says what differs.
    """
    if CHECKPOINT.is_in(folder / CHECKPOINT_ROOM) or not RUN.is_in(folder):
        return None
    run = load_run(folder)
    there, here = (identity_of(*of, device="", engine="") for of in ((run.settings, run.graph), (settings, graph)))
    if found := differences(there, here):
        raise SettingError(
            f"{folder} holds a finished run of another training: {'; '.join(found)}. It has no state to go on from; "
            "use another --out (--start-from starts from its rows), or --force to replace it"
        )
    return run
