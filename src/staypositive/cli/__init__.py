"""The command line. Exit codes: 0 done, 1 it failed, 2 what was asked cannot be done, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Option

from staypositive.cli import ask, data, measure, plan, runs, train, tune
from staypositive.errors import InputError, StayPositiveError, ran_out_of_memory
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
def staypositive(version: Annotated[bool, Option("--version", help="Print the version.")] = False) -> None:
    """Knowledge-graph completion without negative sampling, with calibrated probabilities.

    Start with: staypositive train geo
    """
    if version:
        typer.echo(f"staypositive {__version__}")
        raise typer.Exit


COMMANDS = (
    train.train_command, data.ingest_command, runs.gather_command, measure.evaluate_command,
    measure.calibrate_command, ask.predict_command, ask.discover_command, runs.extend_command, runs.ensemble_command,
    measure.stats_command, data.export_command, data.import_pykeen_command, ask.explain_command, ask.serve_command,
    measure.report_command, tune.tune_command, plan.plan_command,
)  # fmt: skip
"""In the order of `--help`; a command is called what its function is, without `_command`."""
for function in COMMANDS:
    app.command(function.__name__.removesuffix("_command").replace("_", "-"))(function)
app.add_typer(data.datasets_app, name="datasets")


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
