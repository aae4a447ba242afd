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

RANKING = {"mrr": "MRR", "mr": "MR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "amri": "AMRI"}
CLASSIFICATION = {
    "nll": "NLL", "brier": "Brier", "auc": "AUC", "average_precision": "AP", "ece": "ECE",
    "accuracy": "accuracy at ½", "accuracy_threshold": "accuracy, threshold from valid",
    "accuracy_relation_thresholds": "accuracy, a threshold per relation",
}  # fmt: skip
SIDES = {"both": "filtered", "tail": "tail prediction", "head": "head prediction"}


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
    if cell is None or cell != cell:  # not a number
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else ""
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.4f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def evaluation_tables(console: Console, split: str, report: dict[str, Any], per_relation: bool = False) -> None:
    """Print what a report of `Run.evaluate` holds."""
    if "ranking" in report:
        _ranking(console, split, report["ranking"], per_relation)
    if "sampled_ranking" in report:
        _sampled(console, split, report["sampled_ranking"])
    if "discovery" in report:
        _discovery(console, split, report["discovery"])
    if "classification" in report:
        _classification(console, split, report["classification"])


def _ranking(console: Console, split: str, report: dict[str, Any], per_relation: bool) -> None:
    filtered = report["filtered"]
    settings = {name: filtered["realistic"][side] for side, name in SIDES.items()}
    settings |= {f"{ties} ties": filtered[ties]["both"] for ties in ("optimistic", "pessimistic")}
    if "without_unseen" in report:
        settings["seen entities"] = report["without_unseen"]
    settings["raw"] = report["raw"]["realistic"]["both"]
    title = f"Ranking on {split}: {report['queries']:,} queries, filtered by {', '.join(report['filtered_by'])}"
    rows = [[name, *(found[metric] for metric in RANKING)] for name, found in settings.items()]
    console.table(title, ["", *RANKING.values()], rows)
    if per_relation:
        each = sorted(report["relations"].items(), key=lambda item: -item[1]["queries"])
        rows = [[name, found["queries"], *(found[metric] for metric in RANKING)] for name, found in each]
        title = f"Ranking on {split} by relation (filtered)"
        console.table(title, ["relation", "queries", *RANKING.values()], rows)


def _sampled(console: Console, split: str, report: dict[str, Any]) -> None:
    settings = {name: report["filtered"][side] for side, name in SIDES.items()} | {"raw": report["raw"]["both"]}
    rows = [[name, *(found[f"sampled_{metric}"] for metric in RANKING)] for name, found in settings.items()]
    title = (
        f"Sampled ranking on {split}: {report['queries']:,} queries, each against {report['candidates']:,} drawn "
        "entities; not to be compared with ranks among all"
    )
    console.table(title, ["", *(f"sampled {name}" for name in RANKING.values())], rows)


def _discovery(console: Console, split: str, report: dict[str, Any]) -> None:
    rows = [[f"top {top['triples']:,}", top["stated"], top["true"]] for top in report["tops"]]
    rows.append([f"all unknown pairs, per hidden fact ({report['hidden']:,})", report["sum"] / report["hidden"], 1.0])
    console.table(f"Probabilities of unknown triples, the facts of {split} hidden", ["", "stated", "true"], rows)


def _classification(console: Console, split: str, report: dict[str, Any]) -> None:
    columns = {
        f"{way}{name}": metrics
        for scope, name in (("all", ""), ("without_unseen", ", seen entities"))
        for way, metrics in report.get(scope, {}).items()
        if isinstance(metrics, dict)
    }
    rows = [[name, *(column.get(key) for column in columns.values())] for key, name in CLASSIFICATION.items()]
    console.table(f"Classification on {split}: {report['triples']:,} triples", ["", *columns], rows)
