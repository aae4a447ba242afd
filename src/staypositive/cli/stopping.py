"""Stopping `train` by a signal, and the command that resumes it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from staypositive.errors import StoppedError
from staypositive.run import TrainingFolder
from staypositive.training import Callback, EpochRecord, StopSignals


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
