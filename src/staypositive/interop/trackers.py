"""Trackers: the numbers of each epoch as JSON lines, in TensorBoard or in MLflow, while training runs."""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from staypositive.errors import InputError, SettingError, import_optional
from staypositive.files import open_plain
from staypositive.training import Callback, EpochRecord, TrainingResult

Facts = Mapping[str, Any]
MLFLOW_EXPERIMENT = "staypositive"


class Tracker(Callback):
    """A callback that logs to `where`. `about` describes the whole training, such as its settings."""

    def __init__(self, where: str, about: Facts) -> None:
        self.where, self.about, self.is_open = where, dict(about), False

    def on_start(self, epochs: int) -> None:
        self.open(epochs)
        self.is_open = True

    def on_epoch(self, record: EpochRecord) -> None:
        terms = {f"loss/{name}": value for name, value in record.terms.items()}
        checks = {f"validation/{name}": value for name, value in record.validation.items()}
        self.write(record.epoch, {**terms, "mean_score": record.mean_score, "seconds": record.seconds, **checks})

    def on_end(self, result: TrainingResult) -> None:
        self.is_open = False
        went_well = result.stopped in ("epochs", "patience")
        self.finish({"best_epoch": result.best_epoch, "stopped": result.stopped}, went_well)

    def abandon(self) -> None:
        """Close the log of a training that was interrupted; one that has ended is left as it is."""
        if self.is_open:
            self.is_open = False
            self.finish({"stopped": "interrupted"}, went_well=False)

    @abstractmethod
    def open(self, epochs: int) -> None:
        """Begin the log of a training of at most this many epochs."""

    @abstractmethod
    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one epoch, such as `loss/facts`, `validation/mrr`, `mean_score` and `seconds`."""

    @abstractmethod
    def finish(self, result: Facts, went_well: bool) -> None:
        """Write how training ended, and close the log."""


class JsonLines(Tracker):
    """Appends lines to a file: `start`, one `epoch` each, `end`; flushed one by one, so that others can follow."""

    def open(self, epochs: int) -> None:
        path = Path(self.where)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._stream = os.fdopen(handle, "a", encoding="utf-8")
        self._line({"event": "start", "epochs": epochs, **self.about})

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        self._line({"event": "epoch", "epoch": epoch, **numbers})

    def finish(self, result: Facts, went_well: bool) -> None:
        self._line({"event": "end", "went_well": went_well, **result})
        self._stream.close()

    def _line(self, values: dict[str, Any]) -> None:
        self._stream.write(json.dumps(values, ensure_ascii=False) + "\n")
        self._stream.flush()


class TensorBoard(Tracker):
    """Writes event files to a folder: `tensorboard --logdir FOLDER` shows them."""

    def __init__(self, where: str, about: Facts) -> None:
        super().__init__(where, about)
        import_optional("tensorboard", "this tracker", "track")

    def open(self, epochs: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(self.where)
        rows = [f"| {name} | {json.dumps(value, ensure_ascii=False)} |" for name, value in flat(self.about).items()]
        self._writer.add_text("about", "\n".join(["| setting | value |", "| :-- | :-- |", *rows]))

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def finish(self, result: Facts, went_well: bool) -> None:
        self._writer.add_text("result", json.dumps(dict(result)))
        self._writer.close()


class MLflow(Tracker):
    """Writes one run per training to a server or database: `http://localhost:5000`, `sqlite:///mlflow.db`."""

    def __init__(self, where: str, about: Facts) -> None:
        super().__init__(where, about)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        client = import_optional("mlflow.tracking", "this tracker", "track").MlflowClient
        self._client: Any = self._tried(lambda: client(tracking_uri=where))

    def open(self, epochs: int) -> None:
        from mlflow.entities import Param

        def begin() -> str:
            found = self._client.get_experiment_by_name(MLFLOW_EXPERIMENT)
            experiment = found.experiment_id if found else self._client.create_experiment(MLFLOW_EXPERIMENT)
            return str(self._client.create_run(experiment, run_name=str(self.about.get("graph", ""))).info.run_id)

        self.run: str = self._tried(begin)
        settings = flat({"epochs": epochs, **self.about})
        self._client.log_batch(self.run, params=[Param(name, str(value)) for name, value in settings.items()])

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self.run, metrics=[Metric(name, value, now, epoch) for name, value in numbers.items()])

    def finish(self, result: Facts, went_well: bool) -> None:
        for name, value in result.items():
            self._client.set_tag(self.run, name, str(value))
        self._client.set_terminated(self.run, "FINISHED" if went_well else "FAILED")

    def _tried(self, work: Callable[[], Any]) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            return work()
        except (MlflowException, ImportError) as error:
            raise InputError(f"MLflow cannot write to {self.where}: {error}") from None


def make_tracker(text: str, about: Facts | None = None) -> Tracker:
    """Return the tracker that `NAME:WHERE` asks for; `about` describes the training, such as its settings.

    >>> make_tracker("jsonl:log.jsonl").where
    'log.jsonl'
    """
    trackers: dict[str, type[Tracker]] = {"jsonl": JsonLines, "tensorboard": TensorBoard, "mlflow": MLflow}
    name, _, where = text.partition(":")
    if name not in trackers or not where:
        forms = "jsonl:FILE, tensorboard:FOLDER or mlflow:URI"
        raise SettingError(f"expected a tracker such as {forms}, got {text!r}")
    return trackers[name](where, about or {})


def flat(values: Facts) -> dict[str, Any]:
    """Return nested settings as one level, names joined by dots, without those that are None.

    >>> flat({"dim": 4, "objective": {"name": "x", "power": 1}, "prior": None})
    {'dim': 4, 'objective.name': 'x', 'objective.power': 1}
    """
    import pandas as pd

    (row,) = pd.json_normalize([dict(values)]).to_dict("records")
    return {str(name): value for name, value in row.items() if value is not None}
