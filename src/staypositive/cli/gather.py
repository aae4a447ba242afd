"""`staypositive gather`: a run whose weights stayed in shards becomes one as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, Speaker, VerboseFlag
from staypositive.errors import SettingError
from staypositive.sharded import gather_run, is_launched


def gather_command(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the run.", show_default="its own, and its shards are removed"),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Make a run as any other of one whose weights stayed in shards: a file of them, written within little memory.

    `torchrun ... -m staypositive train` leaves weights in shards where they do not fit in one process's memory.
    Gathering takes disk for one table more, and memory for some of its rows and for the graph; what then reads the
    run takes memory for the table.

    Examples:
      staypositive gather runs/large

      staypositive gather runs/large --out runs/whole

    """
    speaker = Speaker(as_json, quiet, verbose)
    if is_launched():
        raise SettingError("`gather` is for one process, without torchrun")
    folder = gather_run(run, out, progress=speaker.progress)
    speaker.say(f"{folder} holds the whole run")
    speaker.result({"run": str(folder)})
