"""Stopping `train` by a signal, and the command that resumes it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

import typer

from staypositive.errors import StoppedError
from staypositive.run import TrainingFolder
from staypositive.training import Callback, EpochRecord

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While this is entered, the first Ctrl-C or SIGTERM asks to stop, which calling this object tells.

    A second one does what it always does: it ends the process at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.number or 0)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # whoever started us wants it ignored
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._restore()
        with suppress(OSError):  # a handler may come amidst a print, so it does not print
            os.write(2, b"\nstopping after this epoch; once more to stop at once\n")

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())


@contextmanager
def stoppable(folder: TrainingFolder) -> Iterator[StopSignals]:
    """Say how to resume a training that is stopped within, and exit as a signal would."""
    stop = StopSignals()
    try:
        yield stop
    except StoppedError as error:
        typer.echo(f"{error}; resume with: {resume_command()}", err=True)
        raise typer.Exit(stop.exit_code) from None
    except KeyboardInterrupt:
        if folder.has_checkpoint:
            typer.echo(f"resume with: {resume_command()}", err=True)
        raise


def resume_command() -> str:
    """Return the command that resumes what this one began."""
    kept = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
    return shlex.join(["staypositive", *kept, "--resume"])


class WhereToBegin(Callback):
    """Says where `--resume` finds a training, once its checkpoint is known to be of this one."""

    def __init__(self, folder: TrainingFolder, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say

    def on_start(self, epochs: int) -> None:
        if not self.folder.has_checkpoint:
            self.say(f"no checkpoint in {self.folder}, so training begins")

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        self.say(f"resuming from epoch {len(history)}")
