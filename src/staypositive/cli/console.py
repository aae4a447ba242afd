"""What commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console as RichConsole
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer import Option

from staypositive.graph import columns_log
from staypositive.sharded import is_first
from staypositive.text import visible, visible_json

if TYPE_CHECKING:
    import pandas as pd

JsonFlag = Annotated[bool, Option("--json", help="Print JSON for programs instead of tables.")]
QuietFlag = Annotated[bool, Option("--quiet", "-q", help="Print results and errors only.")]
VerboseFlag = Annotated[bool, Option("--verbose", "-v", help="Print more about what is done.")]


class Console:
    """Prints for people or, with `--json`, for programs; of several processes, only the first one prints."""

    def __init__(
        self,
        as_json: JsonFlag = False,
        quiet: QuietFlag = False,
        verbose: VerboseFlag = False,
        *,
        warnings: bool = True,
    ) -> None:
        self.as_json, self.quiet = as_json and is_first(), quiet or not is_first()
        self.out, self.err = RichConsole(highlight=False), RichConsole(stderr=True, highlight=False)
        handler = RichHandler(console=self.err, show_time=False, show_path=False)
        handler.setFormatter(VisibleFormatter("%(message)s"))
        logging.basicConfig(handlers=[handler], force=True)
        self.log_from(logging.ERROR if quiet or not warnings else logging.INFO if verbose else logging.WARNING)

    def log_from(self, level: int) -> None:
        """Show log records from a level on; which columns of a file are read, wherever warnings are shown."""
        logging.getLogger().setLevel(level)
        columns_log.setLevel(logging.INFO if level <= logging.WARNING else level)

    def say(self, *lines: str) -> None:
        """Print sentences for people, each on its own line whatever labels stand in it."""
        if not self.quiet and not self.as_json:
            for line in lines:
                self.out.print(Text(visible(line)), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table for people; numbers to the right."""
        if self.as_json or not is_first():
            return
        table = Table(title=_text(title), title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD)
        for column, name in enumerate(header):
            numeric = bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
            table.add_column(_text(name), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_text(show(cell)) for cell in row))
        self.out.print(table)

    def frame(self, title: str, frame: pd.DataFrame) -> None:
        """Print the rows of a frame as a table."""
        rows = [[getattr(cell, "item", lambda cell=cell: cell)() for cell in row] for row in frame.to_numpy(object)]
        self.table(title, list(frame.columns), rows)

    def result(self, value: Any) -> None:
        """Print the result as JSON, if that was asked for."""
        if self.as_json:
            typer.echo(visible_json(value))

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while work is done, where there is a terminal; the callable is told how much was done."""
        columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
        is_unseen = self.quiet or not self.err.is_terminal  # without one, a bar would leave a blank line
        with Progress(*columns, console=self.err, transient=True, disable=is_unseen) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.advance(task, done)


class VisibleFormatter(logging.Formatter):
    """Log records as single lines without control characters; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(map(visible, super().formatException(ei).split("\n")))


def _text(text: str) -> Text:
    """Return text for a table, in which markup, emoji codes and control characters have no effect."""
    return Text(visible(text))


def show(cell: Any) -> str:
    """Return a cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else ""
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.4f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
