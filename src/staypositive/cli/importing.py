"""`staypositive import-pykeen`: what PyKEEN trained, as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import QuietFlag, Speaker
from staypositive.errors import SettingError
from staypositive.run.folder import require_writable


def import_pykeen(
    source: Annotated[
        Path, typer.Argument(help="Folder that PyKEEN saved, with weights in safetensors, or such a file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")],
    dataset: Annotated[
        str | None, typer.Option(help="PyKEEN's name of the dataset, for validation and test.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which model it is, where the file does not say.")] = None,
    quiet: QuietFlag = False,
) -> None:
    """Turn a DistMult, SimplE, ComplEx, HolE, RESCAL or CP that PyKEEN trained into a run, with equal scores.

    PyKEEN saves models as pickles, which are never read: call `staypositive.interop.pykeen.save_weights` where it was
    trained.

    Example:
      staypositive import-pykeen my-pykeen-folder --dataset nations --out runs/nations

    """
    speaker = Speaker(quiet=quiet)
    require_writable(out)
    try:
        from staypositive.interop.pykeen import from_pykeen
    except ModuleNotFoundError as error:
        raise SettingError(f"this needs PyKEEN ({error}): pip install 'staypositive[pykeen]'") from None
    run = from_pykeen(source, dataset, model=model)
    run.save(out)
    speaker.say(f"{run} is in {out}")
