"""`staypositive datasets`: what there is, what is odd about it, and the paper's cleaning rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, Speaker
from staypositive.cli.reading import DataArgument, Reading, reads_graph
from staypositive.graph import CATALOGUE, KnowledgeGraph, drop_unseen, inspect_graph, load_graph, write_folder

app = typer.Typer()


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context) -> None:
    """List, look at, fetch and clean datasets.

    Examples:
      staypositive datasets

      staypositive datasets show WN11

      staypositive datasets clean my-folder --out my-clean-folder

    """
    if context.invoked_subcommand is None:
        list_datasets()


@app.command("list")
def list_datasets(as_json: JsonFlag = False) -> None:
    """List the named datasets."""
    speaker = Speaker(as_json)
    names = ("entities", "relations", "train", "valid", "test")
    rows = [[d.name, *(d.counts[name] for name in names), d.about] for d in CATALOGUE.values()]
    speaker.table("Named datasets", ["name", *names, "about"], rows)
    speaker.result([{"name": d.name, "about": d.about, **d.counts} for d in CATALOGUE.values()])


@app.command("show")
@reads_graph
def show_dataset(data: DataArgument, reading: Reading, as_json: JsonFlag = False) -> None:
    """Count a graph and say what is odd about it; a named one is fetched first."""
    speaker = Speaker(as_json, warnings=False)  # the report itself says what loading would warn of
    _describe(reading.load(data), speaker)


@app.command("fetch")
def fetch_dataset(data: DataArgument, quiet: QuietFlag = False) -> None:
    """Download a named dataset into the cache, checked by SHA-256."""
    speaker = Speaker(quiet=quiet)
    graph = load_graph(data)
    speaker.say(f"{graph.name} is here: {sum(source.rows for source in graph.sources):,} triples, all hashes right")


@app.command("clean")
@reads_graph
def clean_dataset(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the cleaned graph.")],
    reading: Reading,
    as_json: JsonFlag = False,
) -> None:
    """Drop valid and test triples with entities or relations that train lacks (the paper's cleaning rule).

    Applied to WN18RR it gives WN18AM, applied to FB15k-237 FB15k-237AM.
    """
    speaker = Speaker(as_json, warnings=False)
    whole = reading.load(data)
    graph = drop_unseen(whole)
    write_folder(graph, out)
    dropped = graph.notes[len(whole.notes) :]
    speaker.say(f"{dropped[0] if dropped else 'nothing to drop'}; written to {out}")
    _describe(graph, speaker)


def _describe(graph: KnowledgeGraph, speaker: Speaker) -> None:
    counts, report = graph.counts(), inspect_graph(graph)
    speaker.table(f"{graph.name}", list(counts), [list(counts.values())])
    lines = report.lines() or ["nothing odd: no duplicates, leaks, contradictions or unseen entities"]
    for line in [*graph.notes, *lines]:
        speaker.say(f"- {line}")
    sources = [{"name": s.name, "sha256": s.sha256, "rows": s.rows} for s in graph.sources]
    said = {"notes": list(graph.notes), "report": report.as_dict()}
    speaker.result({"name": graph.name, "counts": counts, **said, "sources": sources})
