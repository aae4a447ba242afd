"""Live progress in a terminal: each term of the loss, the mean of all scores, the validation metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from staypositive.training.loop import Callback, EpochRecord, TrainingResult

if TYPE_CHECKING:
    from rich.console import Console


class ProgressBar(Callback):
    """A bar on standard error, so that it never mixes with results."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._progress = Progress(
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            BarColumn(bar_width=12),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[state]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            console=console or Console(stderr=True),
            expand=True,
        )
        self._validation = ""

    def on_start(self, epochs: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task("training", total=epochs, state="")

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        self._progress.update(self._task, completed=len(history))

    def on_epoch(self, record: EpochRecord) -> None:
        terms = " ".join(f"{name} {value:.4g}" for name, value in record.terms.items())
        if record.validation:
            checks = " ".join(f"{name} {value:.4f}" for name, value in record.validation.items())
            self._validation = f" | valid {checks}{' (best)' if record.is_best else ''}"
        state = f"{terms} | mean score {record.mean_score:+.3f}{self._validation}"
        self._progress.update(self._task, advance=1, state=state)

    def on_end(self, result: TrainingResult) -> None:
        self._progress.stop()
