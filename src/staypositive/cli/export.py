"""`staypositive export`: a run's embeddings, graph or scorer, in formats that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, Speaker
from staypositive.errors import SettingError
from staypositive.interop import BASE, EMBEDDING_FORMATS, GRAPH_FORMATS, export_embeddings, export_graph, export_onnx
from staypositive.run import load_run

FORMATS = {"embeddings": EMBEDDING_FORMATS, "graph": GRAPH_FORMATS, "scorer": ("onnx",)}
"""What can be exported, and how; the first format is the default."""


def export_command(
    run: RunArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; for npz and onnx, the file.")],
    what: Annotated[
        Literal["embeddings", "graph", "scorer"], typer.Option("--what", help="What to export.")
    ] = "embeddings",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="; ".join(f"{kind}: {', '.join(formats)}" for kind, formats in FORMATS.items()) + ".",
            show_default="the first",
        ),
    ] = None,
    base: Annotated[
        str, typer.Option("--base", help="What IRIs of labels that are none begin with, in N-Triples.")
    ] = BASE,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write a run's embeddings, its graph, or its scorer as an ONNX graph.

    Embeddings are the rows that scores are made of. A scorer takes ids of head, relation and tail and gives score and
    calibrated probability. Parquet needs the extra parquet, ONNX the extra onnx.

    Examples:
      staypositive export runs/geo --what embeddings --format word2vec --out vectors

      staypositive export runs/geo --what graph --format nt --out geo-rdf

      staypositive export runs/geo --what scorer --out geo.onnx

    """
    speaker = Speaker(as_json, quiet)
    chosen = format or FORMATS[what][0]
    if chosen not in FORMATS[what]:
        raise SettingError(f"{what} can be exported as {', '.join(FORMATS[what])}, got {chosen!r}")
    held = load_run(run)
    if what == "embeddings":
        written = export_embeddings(held, out, chosen)
    elif what == "graph":
        written = export_graph(held.graph, out, chosen, base)
    else:
        written = export_onnx(held, out)
    speaker.say(f"{what} written to {written} as {chosen}")
    speaker.result({"what": what, "format": chosen, "out": str(written)})
