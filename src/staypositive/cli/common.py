"""What all commands share: how they speak, and the flags they have in common."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from staypositive.distributed import is_first
from staypositive.run import Run, is_packaged

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")]
VerboseFlag = Annotated[bool, typer.Option("--verbose", "-v", help="Say more about what is done.")]
RunArgument = Annotated[
    Path, typer.Argument(help="Folder of a run, made by `staypositive train`, or geo-demo, which the package holds.")
]
SplitFlag = Annotated[
    str | None,
    typer.Option("--split", metavar="TRAIN,VALID,TEST", help="Shares to split one file by, e.g. 0.8,0.1,0.1."),
]
HeaderFlag = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether files begin with column names.", show_default="looked at"),
]


def own_command(without: tuple[str, ...]) -> str:
    """Return the command that runs, less some options with their values: where a result is put is no part of it."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in without:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in without)):
            kept.append(word)
    return shlex.join(["staypositive", *kept])


class Speaker:
    """Results go to standard output, everything else to standard error; of several processes, one speaks."""

    def __init__(
        self, as_json: bool = False, quiet: bool = False, verbose: bool = False, *, warnings: bool = True
    ) -> None:
        self.as_json, self.quiet = as_json and is_first(), quiet or not is_first()
        self.out, self.err = Console(highlight=False), Console(stderr=True, highlight=False)
        level = logging.ERROR if quiet or not warnings else logging.INFO if verbose else logging.WARNING
        handler = RichHandler(console=self.err, show_time=False, show_path=False)
        logging.basicConfig(level=level, format="%(message)s", handlers=[handler], force=True)

    def say(self, text: str) -> None:
        """Print a sentence for people."""
        if not self.quiet and not self.as_json:
            self.out.print(escape(text), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table for people; numbers to the right."""
        if self.as_json:
            return
        table = Table(title=escape(title), title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD)
        for column, name in enumerate(header):
            numeric = bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
            table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(escape(show(cell)) for cell in row))
        self.out.print(table)

    def result(self, value: Any) -> None:
        """Print the result as JSON, if that was asked for."""
        if self.as_json:
            typer.echo(json.dumps(value, indent=1, ensure_ascii=False))

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while some work is done; the callable is told of each piece."""
        columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.err, transient=True, disable=self.quiet) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.advance(task, done)


def show(cell: Any) -> str:
    """Return a cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else ""
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.4f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def keep_run(run: Run, folder: Path, speaker: Speaker) -> None:
    """Save a run where it was read; one of the package stays as it is."""
    if is_packaged(folder):
        speaker.say(f"{folder} is part of the package: nothing is kept in it")
    else:
        run.save(folder)


def parse_split(text: str | None) -> tuple[float, ...] | None:
    """Turn `0.8,0.1,0.1` into numbers."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected three shares such as 0.8,0.1,0.1, got {text!r}") from None
