"""Flags that several commands share, by themselves and in groups whose fields are flags, and what they name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import staypositive as sp
from staypositive.cli.console import Console
from staypositive.completion import complete_data, complete_run
from staypositive.interop import require_table_path, write_table
from staypositive.sharded import ShardedRun, is_launched, open_sharded, open_world, own_device

if TYPE_CHECKING:
    import pandas as pd

RunArgument = Annotated[Path, Argument(
    help="Folder of a run, made by `staypositive train`, or geo-demo, which the package holds.",
    autocompletion=complete_run,
)]  # fmt: skip
DataArgument = Annotated[str, Argument(
    help="A dataset's name, a folder of splits, one file of triples (text, Parquet, RDF), or a SPARQL endpoint.",
    autocompletion=complete_data,
)]  # fmt: skip
CompletenessFlag = Annotated[float | None, Option(
    help="Share of all true facts that the graph is taken to have, e.g. 0.9; the fewer, the likelier are new ones.",
    show_default="the run's",
)]  # fmt: skip
RunFolderFlag = Annotated[Path, Option("--out", "-o", help="Folder for the new run.")]
ForceFlag = Annotated[bool, Option(help="Replace a run that is already there.")]


ASSUMED = "probabilities assume that the graph has {:.4g} of all true facts (--completeness)"


@dataclass(frozen=True)
class Output:
    """Where rows go: to a file, or else to standard output as a table."""

    out: Annotated[Path | None, Option("--out", "-o", help="Write a .tsv, .csv, .parquet or .nt file.")] = None
    spreadsheet_safe: Annotated[bool, Option(help="Put ' before CSV and TSV cells that a spreadsheet would run.")] = (
        False
    )

    def __post_init__(self) -> None:
        if self.out is not None:
            require_table_path(self.out)

    def show(self, frame: pd.DataFrame, title: str, console: Console, **asked: str | None) -> None:
        """Write or print rows; labels that were `asked` about complete the triples of an .nt file."""
        if frame.attrs.get("note"):
            console.say(f"note: {frame.attrs['note']}")
        if self.out is None:
            console.frame(title, frame)
            if "completeness" in frame.attrs:
                console.say(ASSUMED.format(frame.attrs["completeness"]))
        else:
            given = {name: label for name, label in asked.items() if label is not None and self.out.suffix == ".nt"}
            write_table(frame.assign(**given), self.out, spreadsheet_safe=self.spreadsheet_safe)
            console.say(f"{len(frame):,} rows written to {self.out}")
        console.result(json_records(frame))


def json_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON takes them: a missing number is null."""
    return [
        {str(name): None if isinstance(cell, float) and isnan(cell) else cell for name, cell in row.items()}
        for row in frame.to_dict(orient="records")
    ]


@dataclass(frozen=True, kw_only=True)
class Layout:
    header: Annotated[bool | None, Option(
        "--header/--no-header", help="Whether text files begin with column names.",
        show_default="looked at: head, relation and tail, or names like these, in any order",
    )] = None  # fmt: skip
    columns: Annotated[str | None, Option(
        metavar="ROLE=COLUMN,...",
        help="Which column is what, by name or number: subject=Name,predicate=Eigenschaft,object=3. Roles: head, "
        "relation, tail, label, confidence, or their other names; those left out are found by name.",
    )] = None  # fmt: skip
    skip_blank: Annotated[bool, Option(help="Leave out rows with an empty head, relation or tail.")] = False
    na: Annotated[
        str | None, Option(metavar="TEXT,...", help='Cells that hold no value, e.g. "N/A,-"; such rows are left out.')
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the keywords of `load_graph`, `read_triples` and `ingest`."""
        columns, na = parse_columns(self.columns), parse_list(self.na)
        return {"header": self.header, "columns": columns, "skip_blank": self.skip_blank, "na": na}


RdfOption = partial(Option, rich_help_panel="Reading RDF and SPARQL")


@dataclass(frozen=True, kw_only=True)
class Reading(Layout):
    split: Annotated[
        str | None, Option(metavar="TRAIN,VALID,TEST", help="Shares to split one file by, e.g. 0.8,0.1,0.1.")
    ] = None
    split_seed: Annotated[int | None, Option(min=0, help="Seed of the split of one file.", show_default="--seed")] = (
        None
    )
    query: Annotated[str | None, RdfOption(help="SELECT or CONSTRUCT query for an endpoint, or its file.")] = None
    page: Annotated[int, RdfOption(min=1, help="Rows per request to an endpoint.")] = 10_000
    timeout: Annotated[float, RdfOption(help="Seconds that one page of an answer may take.")] = 60.0
    literals: Annotated[bool, RdfOption(help="Keep statements about literals too.")] = False
    blank_nodes: Annotated[bool, RdfOption("--blank-nodes/--no-blank-nodes", help="Keep blank nodes.")] = True
    shorten: Annotated[bool, RdfOption(help="Shorten IRIs by the file's own prefixes.")] = False

    def load(self, data: str, seed: int = 0) -> sp.KnowledgeGraph:
        source: str | sp.Sparql = data
        if self.query is not None:
            wrong = "--query is neither a query nor a file that can be read"
            query = self.query if "{" in self.query else read_text(self.query, wrong)
            source = sp.Sparql(data, query, page=self.page, timeout=self.timeout)
        return sp.load_graph(
            source,
            split=parse_numbers(self.split),
            seed=seed if self.split_seed is None else self.split_seed,
            terms=sp.RdfTerms(literals=self.literals, blank_nodes=self.blank_nodes, prefixes=self.shorten),
            **self.options(),
        )


@contextmanager
def opened(folder: Path) -> Iterator[sp.Run | ShardedRun]:
    """Open a run or, by all processes that torchrun started, one in shards."""
    if is_launched():
        with open_world(own_device()) as world:
            yield open_sharded(folder, world)
    else:
        yield sp.load_run(folder)


def read_text(path: str, wrong: str) -> str:
    """Return the text of a file; where it cannot be read, the error says what is `wrong`."""
    try:
        return Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise sp.InputError(f"{wrong}: {error}") from None


def parse_numbers(text: str | None, what: str = "three shares") -> tuple[float, ...] | None:
    """Turn `0.8,0.1,0.1` into numbers."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected {what} such as 0.8,0.1,0.1, got {text!r}") from None


def parse_columns(text: str | None) -> dict[str, str | int | None] | None:
    """Turn `subject=Name,predicate=2` into columns by role; a number is a column's place."""
    if text is None:
        return None
    columns: dict[str, str | int | None] = {}
    for part in parse_list(text):
        role, equals, name = part.partition("=")
        if not equals or role in columns:
            raise sp.InputError(f"--columns is a list such as head=Name,relation=2,tail=Wert, got {text!r}")
        columns[role] = int(name) if name.isascii() and name.isdigit() and len(name) < 9 else name
    return columns


def parse_list(text: str | None) -> list[str]:
    """Split text at commas; quotes hold a part together, as in CSV."""
    try:
        return [part for row in csv.reader([text or ""], strict=True) for part in row]
    except csv.Error as error:
        raise sp.InputError(f"expected a list with commas, got {text!r}: {error}") from None
