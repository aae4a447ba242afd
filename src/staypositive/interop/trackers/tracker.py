"""What trackers have in common: they open when training starts and close when it ends, however it ends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from staypositive.training import Callback, EpochRecord, TrainingResult

Facts = Mapping[str, Any]


class Tracker(Callback):
    """A callback that writes elsewhere. `about` is what is said once, of the whole training."""

    def __init__(self, about: Facts) -> None:
        self.about = dict(about)
        self.is_open = False

    def on_start(self, epochs: int) -> None:
        """Open the log."""
        self.open(epochs)
        self.is_open = True

    def on_epoch(self, record: EpochRecord) -> None:
        """Write the epoch: names such as `loss/facts`, `validation/mrr`, `mean_score` and `seconds`."""
        terms = {f"loss/{name}": value for name, value in record.terms.items()}
        checks = {f"validation/{name}": value for name, value in record.validation.items()}
        self.write(record.epoch, {**terms, "mean_score": record.mean_score, "seconds": record.seconds, **checks})

    def on_end(self, result: TrainingResult) -> None:
        """Close the log with the result."""
        self.close(
            {"best_epoch": result.best_epoch, "stopped": result.stopped}, result.stopped in ("epochs", "patience")
        )

    def abandon(self) -> None:
        """Close the log of a training that was cut short; one that has ended is left as it is."""
        if self.is_open:
            self.close({"stopped": "interrupted"}, False)

    def close(self, result: Facts, went_well: bool) -> None:
        """Write how it ended, and close."""
        self.is_open = False
        self.finish(result, went_well)

    @abstractmethod
    def open(self, epochs: int) -> None:
        """Begin the log of a training of at most so many epochs."""

    @abstractmethod
    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one epoch."""

    @abstractmethod
    def finish(self, result: Facts, went_well: bool) -> None:
        """Write how it ended."""


def flat(values: Facts, prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one level, names joined by dots; what is None is left out.

    >>> flat({"dim": 4, "objective": {"name": "x", "power": 1}, "prior": None})
    {'dim': 4, 'objective.name': 'x', 'objective.power': 1}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value
    return found
