"""`staypositive datasets`, `ingest`, `export` and `import-pykeen`: data in and out."""

from __future__ import annotations

import logging
import shlex
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

import staypositive as sp
from staypositive.cli.command import command
from staypositive.cli.console import Console
from staypositive.cli.flags import DataArgument, Layout, Reading, RunArgument, RunFolderFlag
from staypositive.graph import parse_size
from staypositive.interop import BASE, FORMATS, choose_format, export_embeddings, export_graph, export_onnx
from staypositive.run import memory_bytes, require_writable

datasets_app = typer.Typer()


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context) -> None:
    """List, look at, fetch and clean datasets.

    Examples:
      staypositive datasets
      staypositive datasets show WN11
      staypositive datasets clean my-folder --out my-clean-folder

    """
    if context.invoked_subcommand is None:
        list_datasets()


@datasets_app.command("list")
@command
def list_datasets(console: Console = Console()) -> None:
    """List the named datasets."""
    names = ("entities", "relations", "train", "valid", "test")
    rows = [[d.name, *(d.counts[name] for name in names), d.about] for d in sp.CATALOGUE.values()]
    console.table("Named datasets", ["name", *names, "about"], rows)
    console.result([{"name": d.name, "about": d.about, **d.counts} for d in sp.CATALOGUE.values()])


@datasets_app.command("show")
@command
def show_dataset(data: DataArgument, reading: Reading, console: Console = Console()) -> None:
    """Count a graph and report data problems; a named one is fetched first."""
    console.log_from(logging.ERROR)  # the report itself says what loading would warn of
    _describe(reading.load(data), console)


@datasets_app.command("fetch")
@command
def fetch_dataset(data: DataArgument, console: Console = Console()) -> None:
    """Download a named dataset into the cache, checked by SHA-256."""
    graph = sp.load_graph(data)
    rows = sum(source.rows for source in graph.sources)
    console.say(f"{graph.name} is here: {rows:,} triples, all hashes right")
    console.result({"name": graph.name, "triples": rows})


@datasets_app.command("clean")
@command
def clean_dataset(
    data: DataArgument,
    out: Annotated[Path, Option("--out", "-o", help="Folder for the cleaned graph.")],
    reading: Reading,
    console: Console = Console(),
) -> None:
    """Drop valid and test triples with entities or relations that train lacks (the paper's cleaning rule).

    Applied to WN18RR it gives WN18AM, applied to FB15k-237 FB15k-237AM.
    """
    console.log_from(logging.ERROR)
    whole = reading.load(data)
    graph = sp.drop_unseen(whole)
    sp.write_folder(graph, out)
    dropped = graph.notes[len(whole.notes) :]
    console.say(f"{dropped[0] if dropped else 'nothing to drop'}; written to {out}")
    _describe(graph, console)


def _describe(graph: sp.KnowledgeGraph, console: Console) -> None:
    counts, report = graph.counts(), sp.inspect_graph(graph)
    console.table(graph.name, list(counts), [list(counts.values())])
    problems = report.lines() or ["no problems found: no duplicates, leaks, contradictions or unseen entities"]
    console.say(*(f"- {line}" for line in [*graph.notes, *problems]))
    sources = [{"name": s.name, "sha256": s.sha256, "rows": s.rows} for s in graph.sources]
    found = {"notes": list(graph.notes), "report": report.as_dict()}
    console.result({"name": graph.name, "counts": counts, **found, "sources": sources})


@command
def ingest_command(
    files: Annotated[list[str], Argument(metavar="FILES...", help="Shards: files, quoted patterns, or folders.")],
    out: Annotated[Path, Option("--out", "-o", help="Folder for the ids and labels.")],
    memory: Annotated[
        str, Option(help="Ceiling of memory, beside what Python and its libraries take, e.g. 512MB.")
    ] = "2GB",
    hold_out: Annotated[int, Option(min=0, help="Triples to hold out for valid, and as many for test, by hash.")] = 0,
    layout: Layout = Layout(),
    name: Annotated[str | None, Option(help="Name of the graph.", show_default="the folder's")] = None,
    force: Annotated[bool, Option(help="Replace a streamed graph that is already there.")] = False,
    console: Console = Console(),
) -> None:
    """Stream shards (tab-separated text, also packed; Parquet; .npy of ids) into ids and labels on disk.

    Labels get ids by the order of their hashes; whole numbers of Parquet and .npy are ids as they are, and in text
    they are labels like others. Copies of a triple are dropped.
    The result depends on the triples only, not on the order of shards or on --memory. `train FOLDER` then reads
    facts from disk in shuffled blocks.

    Examples:
      staypositive ingest 'shards/*.parquet' --out graphs/large --memory 2GB --hold-out 10000
      staypositive train graphs/large --model simple --dim 32 --batch-size 16384 --epochs 5 --out runs/large

    """
    start = time.perf_counter()
    most = min(parse_size(memory), memory_bytes() // 2)  # more than there is helps nobody
    graph = sp.ingest(
        files, out, memory=most, hold_out=hold_out, name=name, force=force, progress=console.progress,
        **layout.options(),
    )  # fmt: skip
    seconds = time.perf_counter() - start
    counts = graph.counts() | graph.about
    found = counts["valid"] + counts["test"]
    if found < 2 * hold_out:
        console.say(
            f"{2 * hold_out:,} triples were to be held out, and {found:,} could be: train keeps half of all, and the "
            "only triple of an entity or a relation"
        )
    console.say(
        f"{graph.name}: {counts['entities']:,} entities, {counts['relations']:,} relations, "
        f"{counts['train']:,} / {counts['valid']:,} / {counts['test']:,} triples; "
        f"{counts['copies_dropped']:,} copies dropped"
    )
    if counts["unused_entities"] or counts["unused_relations"]:
        console.say(
            f"{counts['unused_entities']:,} entities and {counts['unused_relations']:,} relations have no triple: "
            "numbers are ids as they are, and each takes a row"
        )
    rate = sum(source.rows for source in graph.sources) / seconds
    console.say(
        f"read {len(graph.sources)} shards in {seconds:.1f} s ({rate:,.0f} triples per second)",
        f"next: {shlex.join(['staypositive', 'train', str(out)])}",
    )
    result = {"folder": str(out), "fingerprint": graph.fingerprint, "counts": counts, "seconds": seconds}
    console.result(result | {"triples_per_second": rate})


@command
def export_command(
    run: RunArgument,
    out: Annotated[Path, Option("--out", "-o", help="Folder; for npz and onnx, the file.")],
    what: Annotated[Literal["embeddings", "graph", "scorer"], Option(help="What to export.")] = "embeddings",
    format: Annotated[
        str | None,
        Option(
            help="; ".join(f"{kind}: {', '.join(formats)}" for kind, formats in FORMATS.items()) + ".",
            show_default="the first",
        ),
    ] = None,
    base: Annotated[str, Option(help="What IRIs of labels that are none begin with, in N-Triples.")] = BASE,
    console: Console = Console(),
) -> None:
    """Write a run's embeddings, its graph, or its scorer as an ONNX graph.

    Embeddings are the rows that scores are made of. A scorer takes ids of head, relation and tail and gives score and
    calibrated probability. Parquet needs the extra parquet, ONNX the extra onnx.

    Examples:
      staypositive export runs/geo --what embeddings --format word2vec --out vectors
      staypositive export runs/geo --what graph --format nt --out geo-rdf
      staypositive export runs/geo --what scorer --out geo.onnx

    """
    chosen = choose_format(what, format)
    held = sp.load_run(run)
    if what == "embeddings":
        written = export_embeddings(held, out, chosen)
    elif what == "graph":
        written = export_graph(held.graph, out, chosen, base)
    else:
        written = export_onnx(held, out)
    console.say(f"{what} written to {written} as {chosen}")
    console.result({"what": what, "format": chosen, "out": str(written)})


@command
def import_pykeen_command(
    source: Annotated[Path, Argument(help="Folder that PyKEEN saved, with weights in safetensors, or such a file.")],
    out: RunFolderFlag,
    dataset: Annotated[str | None, Option(help="PyKEEN's name of the dataset, for validation and test.")] = None,
    model: Annotated[str | None, Option(help="Which model it is, where the file does not say.")] = None,
    console: Console = Console(),
) -> None:
    """Turn a DistMult, SimplE, ComplEx, HolE, RESCAL or CP that PyKEEN trained into a run, with equal scores.

    PyKEEN saves models as pickles, which are never read: call `staypositive.interop.pykeen.save_weights` where it was
    trained.

    Example:
      staypositive import-pykeen my-pykeen-folder --dataset nations --out runs/nations

    """
    require_writable(out)
    try:
        from staypositive.interop.pykeen import from_pykeen
    except ModuleNotFoundError as error:
        raise sp.SettingError(f"this needs PyKEEN ({error}): pip install 'staypositive[pykeen]'") from None
    run = from_pykeen(source, dataset, model=model)
    run.save(out)
    console.say(f"{run} is in {out}")
    console.result({"run": str(out)})
