"""How commands read a graph: the flags that say how, and the reading itself."""

from __future__ import annotations

import csv
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from staypositive.cli.common import HeaderFlag, SplitFlag, parse_numbers
from staypositive.completion import complete_data
from staypositive.errors import InputError
from staypositive.graph import KnowledgeGraph, RdfTerms, Sparql, load_graph
from staypositive.graph.readers.columns import log as COLUMNS_LOG  # noqa: N812  # what is said of columns

PANEL = "Reading RDF and SPARQL"
ColumnsFlag = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN,...",
        help="Which column is what, by name or number: subject=Name,predicate=Eigenschaft,object=3. Roles: head, "
        "relation, tail, label, confidence, or their other names; those left out are found by name.",
    ),
]
SkipBlankFlag = Annotated[
    bool, typer.Option("--skip-blank", help="Leave out, and count, rows with an empty head, relation or tail.")
]
NaFlag = Annotated[
    str | None,
    typer.Option("--na", metavar="TEXT,...", help='Cells that hold no value, e.g. "N/A,-"; such rows are left out.'),
]
DataArgument = Annotated[
    str,
    typer.Argument(
        help="A dataset's name, a folder of splits, one file of triples (text, Parquet, RDF), or a SPARQL endpoint.",
        autocompletion=complete_data,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a graph is read; each field is a flag."""

    split: SplitFlag = None
    split_seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the split of one file.", show_default="--seed")
    ] = None
    header: HeaderFlag = None
    columns: ColumnsFlag = None
    skip_blank: SkipBlankFlag = False
    na: NaFlag = None
    query: Annotated[
        str | None,
        typer.Option(
            help="SELECT or CONSTRUCT query for an endpoint, or a file that holds one.", rich_help_panel=PANEL
        ),
    ] = None
    page: Annotated[int, typer.Option(min=1, help="Rows to ask an endpoint for at once.", rich_help_panel=PANEL)] = (
        10_000
    )
    timeout: Annotated[
        float, typer.Option(help="Seconds that a page of an endpoint's answer may take.", rich_help_panel=PANEL)
    ] = 60.0
    literals: Annotated[
        bool, typer.Option("--literals", help="Keep statements about literals too.", rich_help_panel=PANEL)
    ] = False
    blank_nodes: Annotated[
        bool, typer.Option("--blank-nodes/--no-blank-nodes", help="Keep blank nodes.", rich_help_panel=PANEL)
    ] = True
    shorten: Annotated[
        bool, typer.Option("--shorten", help="Shorten IRIs by the file's own prefixes.", rich_help_panel=PANEL)
    ] = False

    def load(self, data: str, seed: int = 0) -> KnowledgeGraph:
        """Load the graph."""
        source: str | Sparql = data
        if self.query is not None:
            source = Sparql(data, _query(self.query), page=self.page, timeout=self.timeout)
        terms = RdfTerms(literals=self.literals, blank_nodes=self.blank_nodes, prefixes=self.shorten)
        seed = seed if self.split_seed is None else self.split_seed
        with layouts_shown():
            return load_graph(
                source, split=parse_numbers(self.split), header=self.header, columns=parse_columns(self.columns),
                skip_blank=self.skip_blank, na=parse_list(self.na), seed=seed, terms=terms,
            )  # fmt: skip


@contextmanager
def layouts_shown() -> Iterator[None]:
    """Show which columns are read, though that is no warning, wherever warnings are shown."""
    before = COLUMNS_LOG.level
    if COLUMNS_LOG.isEnabledFor(logging.WARNING):
        COLUMNS_LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        COLUMNS_LOG.setLevel(before)


def parse_columns(text: str | None) -> dict[str, str | int | None] | None:
    """Turn `subject=Name,predicate=2` into columns by role; a number is a column's place."""
    if text is None:
        return None
    columns: dict[str, str | int | None] = {}
    for part in parse_list(text):
        role, equals, name = part.partition("=")
        if not equals or role in columns:
            raise InputError(f"--columns is a list such as head=Name,relation=2,tail=Wert, got {text!r}")
        columns[role] = int(name) if name.isascii() and name.isdigit() and len(name) < 9 else name
    return columns


def parse_list(text: str | None) -> list[str]:
    """Return what commas part; quotes hold a part together, as in CSV."""
    try:
        return [part for row in csv.reader([text or ""], strict=True) for part in row]
    except csv.Error as error:
        raise InputError(f"expected a list with commas, got {text!r}: {error}") from None


def reads_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `Reading`, in place of its parameter `reading`."""
    signature = inspect.signature(command, eval_str=True)
    hints = get_type_hints(Reading, include_extras=True)
    flags = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(Reading).parameters.items()
    ]

    def generated(**arguments: Any) -> None:
        own = {flag.name: arguments.pop(flag.name) for flag in flags}
        command(**arguments, reading=Reading(**own))

    others = [p.replace(kind=_named(p)) for p in signature.parameters.values() if p.name != "reading"]
    parameters = sorted([*others, *flags], key=lambda p: p.kind)
    generated.__doc__, generated.__name__ = command.__doc__, command.__name__
    generated.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    generated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return generated


def _named(parameter: inspect.Parameter) -> Any:
    """Parameters are given by name, so that their order is free."""
    keeps = parameter.kind is inspect.Parameter.VAR_KEYWORD
    return parameter.kind if keeps else inspect.Parameter.KEYWORD_ONLY


def _query(text: str) -> str:
    if "{" in text:
        return text
    try:
        return Path(text).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--query is neither a query nor a file that can be read: {error}") from None
