"""MLflow: one run of the experiment `staypositive` a training, settings as parameters (needs `mlflow-skinny`)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from staypositive.errors import InputError
from staypositive.interop.trackers.tracker import Facts, Tracker, flat

EXPERIMENT = "staypositive"


class MLflow(Tracker):
    """Writes to a tracking server or a database, such as `http://localhost:5000` or `sqlite:///mlflow.db`."""

    def __init__(self, uri: str, about: Facts) -> None:
        super().__init__(about)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a training tells nobody but whom it was asked to
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise InputError("this tracker needs mlflow: pip install 'staypositive[track]'") from None
        self.uri = uri
        self._client: Any = self._tried(lambda: MlflowClient(tracking_uri=uri))

    def open(self, epochs: int) -> None:
        """Begin a run and log the settings."""
        from mlflow.entities import Param

        def begin() -> str:
            found = self._client.get_experiment_by_name(EXPERIMENT)
            experiment = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
            return str(self._client.create_run(experiment, run_name=str(self.about.get("graph", ""))).info.run_id)

        self.run: str = self._tried(begin)
        said = flat({"epochs": epochs, **self.about})
        self._client.log_batch(self.run, params=[Param(name, str(value)) for name, value in said.items()])

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Log the epoch's numbers in one request."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self.run, metrics=[Metric(name, value, now, epoch) for name, value in numbers.items()])

    def finish(self, result: Facts, went_well: bool) -> None:
        """Tag the run with how it ended, and end it."""
        for name, value in result.items():
            self._client.set_tag(self.run, name, str(value))
        self._client.set_terminated(self.run, "FINISHED" if went_well else "FAILED")

    def _tried(self, work: Any) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            return work()
        except (MlflowException, ImportError) as error:
            raise InputError(f"MLflow cannot write to {self.uri}: {error}") from None
