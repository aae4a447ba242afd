"""What all commands share: how they speak, and the flags they have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from staypositive.completion import complete_run
from staypositive.run import Run, is_packaged
from staypositive.sharded import is_first
from staypositive.text import visible, visible_json

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")]
VerboseFlag = Annotated[bool, typer.Option("--verbose", "-v", help="Say more about what is done.")]
SafeFlag = Annotated[
    bool,
    typer.Option("--spreadsheet-safe", help="Put ' before labels of a CSV or TSV that a spreadsheet would run."),
]
RunArgument = Annotated[
    Path,
    typer.Argument(
        help="Folder of a run, made by `staypositive train`, or geo-demo, which the package holds.",
        autocompletion=complete_run,
    ),
]
SplitFlag = Annotated[
    str | None,
    typer.Option("--split", metavar="TRAIN,VALID,TEST", help="Shares to split one file by, e.g. 0.8,0.1,0.1."),
]
HeaderFlag = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether text files begin with column names.",
        show_default="looked at: head, relation and tail, or names like these, in any order",
    ),
]


class Speaker:
    """Results go to standard output, everything else to standard error; of several processes, one speaks."""

    def __init__(
        self, as_json: bool = False, quiet: bool = False, verbose: bool = False, *, warnings: bool = True
    ) -> None:
        self.as_json, self.quiet = as_json and is_first(), quiet or not is_first()
        self.out, self.err = Console(highlight=False), Console(stderr=True, highlight=False)
        level = logging.ERROR if quiet or not warnings else logging.INFO if verbose else logging.WARNING
        handler = RichHandler(console=self.err, show_time=False, show_path=False)
        handler.setFormatter(VisibleFormatter("%(message)s"))
        logging.basicConfig(level=level, handlers=[handler], force=True)

    def say(self, *lines: str) -> None:
        """Print sentences for people, each on its own line whatever labels stand in it."""
        if not self.quiet and not self.as_json:
            for line in lines:
                self.out.print(Text(visible(line)), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table for people; numbers to the right."""
        if self.as_json or not is_first():
            return
        table = Table(title=_shown(title), title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD)
        for column, name in enumerate(header):
            numeric = bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
            table.add_column(_shown(name), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_shown(show(cell)) for cell in row))
        self.out.print(table)

    def result(self, value: Any) -> None:
        """Print the result as JSON, if that was asked for."""
        if self.as_json:
            typer.echo(visible_json(value))

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while some work is done, where there is a terminal; the callable is told of each piece."""
        columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
        is_unseen = self.quiet or not self.err.is_terminal  # without one, a bar would leave a blank line
        with Progress(*columns, console=self.err, transient=True, disable=is_unseen) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.advance(task, done)


class VisibleFormatter(logging.Formatter):
    """Log records as single lines of what can be seen; the traceback behind one keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        """Return the message, nothing in it an order to the terminal."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the traceback line by line."""
        return "\n".join(map(visible, super().formatException(ei).split("\n")))


def _shown(text: str) -> Text:
    """Return text for a table: no markup, no emoji codes, no orders to the terminal."""
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


def keep_results(run: Run, folder: Path, speaker: Speaker) -> None:
    """Keep what was measured of a run where it was read; one of the package stays as it is."""
    if is_packaged(folder):
        speaker.say(f"{folder} is part of the package: nothing is kept in it")
    else:
        run.save_results(folder)


def parse_numbers(text: str | None, what: str = "three shares") -> tuple[float, ...] | None:
    """Turn `0.8,0.1,0.1` into numbers."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected {what} such as 0.8,0.1,0.1, got {text!r}") from None
