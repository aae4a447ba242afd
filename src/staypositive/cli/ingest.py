"""`staypositive ingest`: shards of triples, too many for memory, become a folder that training streams from."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import HeaderFlag, JsonFlag, QuietFlag, Speaker, VerboseFlag
from staypositive.cli.reading import (
    ColumnsFlag,
    NaFlag,
    SkipBlankFlag,
    layouts_shown,
    parse_columns,
    parse_list,
)
from staypositive.graph import StreamedGraph, ingest
from staypositive.graph.on_disk import parse_size
from staypositive.run.fitting import memory_bytes


def ingest_command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Shards: files, quoted patterns, or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the ids and labels.")],
    memory: Annotated[
        str, typer.Option(help="Ceiling of memory, beside what Python and its libraries take, e.g. 512MB.")
    ] = "2GB",
    hold_out: Annotated[
        int, typer.Option(min=0, help="Triples to hold out for valid, and as many for test, drawn by hash.")
    ] = 0,
    header: HeaderFlag = None,
    columns: ColumnsFlag = None,
    skip_blank: SkipBlankFlag = False,
    na: NaFlag = None,
    name: Annotated[str | None, typer.Option(help="What the graph is called.", show_default="the folder's")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a streamed graph that is already there.")] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Stream shards (tab-separated text, also packed; Parquet; .npy of ids) into ids and labels on disk.

    Labels get ids by the order of their hashes; whole numbers of Parquet and .npy are ids as they are, and in text
    they are labels as any other. Copies of a triple are dropped.
    What comes out depends on the triples alone, not on the order of shards or on --memory. `train FOLDER` then reads
    facts from disk in shuffled blocks.

    Examples:
      staypositive ingest 'shards/*.parquet' --out graphs/large --memory 2GB --hold-out 10000

      staypositive train graphs/large --model simple --dim 32 --batch-size 16384 --epochs 5 --out runs/large

    """
    speaker = Speaker(as_json, quiet, verbose)
    start = time.perf_counter()
    with layouts_shown():
        graph = ingest(
            files,
            out,
            memory=min(parse_size(memory), memory_bytes() // 2),  # more than there is helps nobody
            hold_out=hold_out,
            header=header,
            columns=parse_columns(columns),
            skip_blank=skip_blank,
            na=parse_list(na),
            name=name,
            force=force,
            progress=speaker.progress,
        )
    found = graph.counts()["valid"] + graph.counts()["test"]
    if found < 2 * hold_out:
        speaker.say(
            f"{2 * hold_out:,} triples were to be held out, and {found:,} could be: train keeps half of all, and the "
            "only triple of an entity or a relation"
        )
    _report(graph, out, time.perf_counter() - start, speaker)


def _report(graph: StreamedGraph, out: Path, seconds: float, speaker: Speaker) -> None:
    counts = graph.counts() | graph.about
    rate = sum(source.rows for source in graph.sources) / seconds
    speaker.say(
        f"{graph.name}: {counts['entities']:,} entities, {counts['relations']:,} relations, "
        f"{counts['train']:,} / {counts['valid']:,} / {counts['test']:,} triples; "
        f"{counts['copies_dropped']:,} copies dropped"
    )
    if counts["unused_entities"] or counts["unused_relations"]:
        speaker.say(
            f"{counts['unused_entities']:,} entities and {counts['unused_relations']:,} relations have no triple: "
            "numbers are ids as they are, and each takes a row"
        )
    speaker.say(f"read {len(graph.sources)} shards in {seconds:.1f} s ({rate:,.0f} triples a second)")
    speaker.say(f"next: {shlex.join(['staypositive', 'train', str(out)])}")
    result = {"folder": str(out), "fingerprint": graph.fingerprint, "counts": counts, "seconds": seconds}
    speaker.result(result | {"triples_per_second": rate})
