"""The folder of a training: its run once it has ended, its checkpoint until then."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from staypositive.errors import RunError, SettingError
from staypositive.files import locked
from staypositive.graph import KnowledgeGraph
from staypositive.run.checkpoint import CHECKPOINT, DEFAULT_EVERY, Checkpoint, differences, epochs_done, identity_of
from staypositive.run.folder import CHECKPOINT_ROOM, RUN, is_in_shards, require_writable
from staypositive.run.run import Run, load_run
from staypositive.run.settings import Settings


class TrainingFolder:
    """Where a training keeps its state and puts its run, so that it can be stopped and resumed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def has_run(self) -> bool:
        return RUN.is_in(self.path)

    @property
    def has_checkpoint(self) -> bool:
        return CHECKPOINT.is_in(self.path / CHECKPOINT_ROOM)

    @property
    def is_in_shards(self) -> bool:
        return is_in_shards(self.path)

    def checkpoint(self, every: int | str | None = None) -> Checkpoint:
        return Checkpoint(self.path / CHECKPOINT_ROOM, every or DEFAULT_EVERY)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from writing here; they get an error."""
        require_writable(self.path)
        return locked(self.path)

    def require_free(self, replace: bool = False) -> None:
        """Find out, before the work begins, whether a run can be saved here; what it would replace is an error."""
        if self.has_run and not replace:
            raise SettingError(f"{self} already holds a run; use --force to replace it, or another --out")
        if done := 0 if replace else epochs_done(self.path / CHECKPOINT_ROOM):
            raise SettingError(
                f"{self} holds a training that was stopped after epoch {done}; `train --resume` resumes it, "
                "--force begins anew"
            )
        require_writable(self.path)

    def finished(self, settings: Settings, graph: KnowledgeGraph) -> Run | None:
        """Return the run where nothing is left to do, and None where training has yet to end.

        A finished run of another training is an error that says what differs.
        """
        if self.has_checkpoint or not self.has_run:
            return None
        run = load_run(self.path)
        there = identity_of(run.settings, run.graph, device="", engine="")
        if found := differences(there, identity_of(settings, graph, device="", engine="")):
            raise SettingError(
                f"{self} holds a finished run of another training: {'; '.join(found)}. It has no state to resume "
                "from; use another --out (--start-from starts from its rows), or --force to replace it"
            )
        return run

    def clear_checkpoint(self) -> None:
        """Remove the state of a training that has ended or is to begin anew, and what an interrupted save left."""
        CHECKPOINT.clear(self.path / CHECKPOINT_ROOM)

    def keep_diverged(self, run: Run) -> str:
        """Save what was trained before the loss diverged, never over a run that did not; return where it is."""
        if not run.history:
            return "That was the first epoch, so there is nothing to keep"
        place = self.path.with_name(f"{self.path.name}-diverged") if self.has_run else self.path
        try:
            run.save(place)
        except RunError as error:
            return f"{error}"
        self.clear_checkpoint()  # it would only diverge again
        return f"It is in {place}"
