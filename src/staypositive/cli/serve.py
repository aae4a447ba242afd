"""`staypositive serve`: a run as a web service, with a page to explore it."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from staypositive.cli.common import QuietFlag, RunArgument, Speaker, VerboseFlag
from staypositive.errors import InputError
from staypositive.run import load_run


def serve_command(
    run: RunArgument,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="STAYPOSITIVE_TOKEN", help="Bearer token that requests must carry.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take.")] = 30.0,
    threads: Annotated[
        int, typer.Option(min=1, help="CPU threads of one matrix product; more pay from a million entities on.")
    ] = 1,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Serve a run over HTTP: a page to explore it, a JSON API, health checks and metrics.

    It listens on loopback alone unless told otherwise, and beyond loopback only with a token.

    Examples:
      staypositive serve geo-demo

      staypositive serve runs/geo --port 9000 --token "$(openssl rand -hex 16)" --host 0.0.0.0

    """
    speaker = Speaker(False, quiet, verbose)
    try:
        from staypositive.service import Limits, serve
    except ImportError as error:
        raise InputError(f"serving needs {error.name}: pip install 'staypositive[serve]'") from None
    torch.set_num_threads(threads)
    held = load_run(run)

    def announce(address: str) -> None:
        speaker.say(repr(held), f"explore  {address}", f"API      {address}docs", "stop     Ctrl+C")

    serve(held, host=host, port=port, token=token, limits=Limits(seconds=timeout), announce=announce)
