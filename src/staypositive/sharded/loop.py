"""The loop of a sharded training: epochs, validation, the best epoch kept, checkpoints to go on from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from staypositive.errors import DivergedError
from staypositive.run import Settings
from staypositive.sharded.checkpoint import ShardedCheckpointFolder
from staypositive.sharded.engine import ShardedEngine
from staypositive.training import MONITORS, Callback, EpochRecord, TrainingResult, TrainingState


@dataclass
class Training:
    """A sharded training under way: what a checkpoint holds, and what goes on from one.

    Every process takes the same decisions, since losses and metrics are sums over all of them.
    """

    engine: ShardedEngine
    settings: Settings
    monitor: str
    validate: Callable[[], dict[str, float]] | None
    folder: ShardedCheckpointFolder | None = None
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0

    def __post_init__(self) -> None:
        self.best = {name: weight.clone() for name, weight in self._weights().items()}

    def run(self, callbacks: Sequence[Callback] = ()) -> TrainingResult:
        """Train from where the history ends; leave the model with the weights of the best validated epoch."""
        for callback in callbacks:
            callback.on_start(self.settings.epochs)
            if self.history:
                callback.on_resume(tuple(self.history))
        while len(self.history) < self.settings.epochs and not self._out_of_patience():
            record, is_due = self._epoch()
            self.history.append(record)
            for callback in callbacks:
                callback.on_epoch(record)
            if is_due:
                self._save()
        if self.best_epoch:
            for name, weight in self._weights().items():
                weight.copy_(self.best[name])
        stopped = "epochs" if len(self.history) >= self.settings.epochs else "patience"
        result = TrainingResult(tuple(self.history), self.best_epoch or len(self.history), stopped)
        for callback in callbacks:
            callback.on_end(result)
        return result

    def resume(self) -> None:
        """Go back to the newest whole checkpoint, where there is one, whatever number of processes wrote it."""
        state = None if self.folder is None else self.folder.load()
        if state is None:
            return
        self.engine.restore(state.engine)
        self.history = list(state.history)
        self.best_epoch = max((record.epoch for record in state.history if record.is_best), default=0)
        for name, weight in state.best_weights.items():
            self.best[name].copy_(weight)

    def _epoch(self) -> tuple[EpochRecord, bool]:
        """Go once through the facts, and validate where that is due; return whether it was."""
        epoch, engine = len(self.history) + 1, self.engine
        start = time.perf_counter()
        means = {name: float(mean) for name, mean in engine.run_epoch().items()}
        record = EpochRecord(epoch, time.perf_counter() - start, means, engine.mean_score())
        if not all(math.isfinite(value) for value in (*means.values(), record.mean_score)):
            where = "" if self.folder is None else f"; the last whole checkpoint is in {self.folder.folder}"
            raise DivergedError(
                f"the loss became NaN or infinite in epoch {epoch}{where}. Try a smaller learning rate"
            )
        is_due = epoch % self.settings.validate_every == 0 or epoch == self.settings.epochs
        if self.validate is None or not is_due:
            return record, is_due
        metrics = self.validate()
        is_best = self._is_better(metrics[self.monitor])
        if is_best:
            self.best_epoch = epoch
            for name, weight in self._weights().items():
                self.best[name].copy_(weight)
        return replace(record, validation=metrics, is_best=is_best), is_due

    def _is_better(self, value: float) -> bool:
        if not self.best_epoch:
            return not math.isnan(value)
        best = self.history[self.best_epoch - 1].validation[self.monitor]
        return value > best if MONITORS[self.monitor] else value < best

    def _out_of_patience(self) -> bool:
        patience, waited = self.settings.patience, len(self.history) - self.best_epoch
        return patience is not None and self.best_epoch > 0 and waited >= patience * self.settings.validate_every

    def _save(self) -> None:
        if self.folder is not None:
            best = self.best if self.best_epoch else {}
            self.folder.save(TrainingState(self.engine.state(), best, tuple(self.history)))

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.data for name, weight in self.engine.model.named_parameters()}
