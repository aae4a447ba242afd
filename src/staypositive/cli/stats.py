"""`staypositive stats`: the moments of all possible scores, and how many triples are likely."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, SafeFlag, Speaker, VerboseFlag
from staypositive.cli.tables import frame_rows
from staypositive.inference.statistics import score_statistics
from staypositive.interop import require_table_path, write_table
from staypositive.run import load_run


def stats_command(
    run: RunArgument,
    threshold: Annotated[float, typer.Option(help="Count triples of at least this probability.")] = 0.5,
    prior: Annotated[float | None, typer.Option(help="Share of true triples to assume; default: the run's.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Triples drawn of each relation for the estimate.")] = 100_000,
    exact: Annotated[bool, typer.Option("--exact", help="Count them all too: |E|² scores a relation.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table as .csv, .tsv or .parquet.")
    ] = None,
    spreadsheet_safe: SafeFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Mean and standard deviation of all |E|²|R| scores by relation, exactly, and how many are likely.

    `normal` takes a relation's scores for normal; `sampled` is an estimate with its 95% interval.

    Examples:
      staypositive stats runs/geo

      staypositive stats runs/geo --threshold 0.9 --prior 0.01 --exact

    """
    speaker = Speaker(as_json, quiet, verbose)
    if output is not None:
        require_table_path(output)
    held = load_run(run)
    with speaker.progress("relations", len(held.graph.relations)) as done:
        table = score_statistics(
            held.predictor, threshold=threshold, prior=prior, samples=samples, exact=exact, seed=seed, progress=done
        )
    if output is not None:
        write_table(table, output, spreadsheet_safe=spreadsheet_safe)
        speaker.say(f"written to {output}")
    speaker.table(
        f"All triples by relation; likely: probability ≥ {threshold:g}", list(table.columns), frame_rows(table)
    )
    speaker.result(table.to_dict("records"))
