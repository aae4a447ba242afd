"""The command line. Exit codes: 0 done, 1 it failed, 2 what was asked cannot be done, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from staypositive.cli.ask import discover_command, explain_command, predict_command, serve_command
from staypositive.cli.bench import bench
from staypositive.cli.data import datasets_app, export_command, import_pykeen_command, ingest_command
from staypositive.cli.measure import calibrate_command, evaluate_command, report_command, stats_command
from staypositive.cli.plan import plan_command
from staypositive.cli.reproduce import reproduce_command, results_app
from staypositive.cli.runs import ensemble_command, extend_command, gather_command
from staypositive.cli.train import train_command
from staypositive.cli.tune import tune_command
from staypositive.errors import InputError, StayPositiveError
from staypositive.run import ran_out_of_memory
from staypositive.text import visible
from staypositive.version import __version__

app = typer.Typer(
    name="staypositive",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help"]},
)


@app.callback(invoke_without_command=True)
def staypositive(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Knowledge-graph completion without negative sampling, with probabilities one can trust.

    Start with: staypositive train geo
    """
    if version:
        typer.echo(f"staypositive {__version__}")
        raise typer.Exit


COMMANDS: dict[str, Callable[..., None]] = {
    "train": train_command,
    "ingest": ingest_command,
    "gather": gather_command,
    "evaluate": evaluate_command,
    "calibrate": calibrate_command,
    "predict": predict_command,
    "discover": discover_command,
    "extend": extend_command,
    "ensemble": ensemble_command,
    "stats": stats_command,
    "export": export_command,
    "import-pykeen": import_pykeen_command,
    "explain": explain_command,
    "serve": serve_command,
    "report": report_command,
    "tune": tune_command,
    "bench": bench,
    "plan": plan_command,
    "reproduce": reproduce_command,
}
for name, function in COMMANDS.items():
    app.command(name)(function)
app.add_typer(results_app, name="results")
app.add_typer(datasets_app, name="datasets")


def main() -> None:
    """Run the command line; an error of ours is one clear line, not a traceback."""
    try:
        app()
    except StayPositiveError as error:
        typer.echo(visible(f"error: {error}"), err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except OSError as error:  # a file or folder of the user's, whichever command met it
        typer.echo(visible(f"error: {error.filename or ''}: {error.strerror or error}"), err=True)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        typer.echo("error: memory ran out; give it less at once, or a smaller graph or model", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
