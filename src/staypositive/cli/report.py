"""`staypositive report`: a run as one page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, Speaker
from staypositive.run import load_run


def report_command(
    run: RunArgument,
    output: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    split: Annotated[
        str | None, typer.Option(help="Split to show quality on.", show_default="test, or valid where test is empty")
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="Share of true triples to assume for new facts.", show_default="each relation's density"),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=2, help="Pairs of each relation that score statistics judge at most.")
    ] = 20_000,
    points: Annotated[int, typer.Option(min=2, help="Entities drawn on the map at most.")] = 3000,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write one HTML page that shows a run: training, ranking, probabilities, statistics, map, predictions, settings.

    The page needs no network and no script; it follows the light or dark theme and can be printed.

    Examples:
      staypositive report geo-demo

      staypositive report runs/mine --out mine.html --split valid --prior 0.01

    """
    from staypositive.reports import write_report

    speaker = Speaker(as_json, quiet)
    with speaker.progress("drawing", 9) as advance:
        path = write_report(
            load_run(run), output, split=split, prior=prior, samples=samples, points=points, seed=seed,
            progress=lambda _: advance(1),
        )  # fmt: skip
    speaker.say(f"written to {path} ({path.stat().st_size / 1024:,.0f} KB); open it in a browser")
    speaker.result({"report": str(path), "bytes": path.stat().st_size})
