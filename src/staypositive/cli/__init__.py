"""The command line. Exit codes: 0 done, 1 it failed, 2 what was asked cannot be done, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from staypositive.cli import datasets
from staypositive.cli.discover import discover_command
from staypositive.cli.ensemble import ensemble_command
from staypositive.cli.explain import explain_command
from staypositive.cli.export import export_command
from staypositive.cli.extend import extend_command
from staypositive.cli.gather import gather_command
from staypositive.cli.importing import import_pykeen
from staypositive.cli.ingest import ingest_command
from staypositive.cli.inspecting import calibrate, evaluate, predict
from staypositive.cli.plan import plan_command
from staypositive.cli.report import report_command
from staypositive.cli.serve import serve_command
from staypositive.cli.stats import stats_command
from staypositive.cli.train import train_command
from staypositive.cli.tune import tune_command
from staypositive.errors import InputError, StayPositiveError
from staypositive.run.memory import ran_out_of_memory
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


app.command("train")(train_command)
app.command("ingest")(ingest_command)
app.command("gather")(gather_command)
app.command("evaluate")(evaluate)
app.command("calibrate")(calibrate)
app.command("predict")(predict)
app.command("discover")(discover_command)
app.command("extend")(extend_command)
app.command("ensemble")(ensemble_command)
app.command("stats")(stats_command)
app.command("export")(export_command)
app.command("import-pykeen")(import_pykeen)
app.command("explain")(explain_command)
app.command("serve")(serve_command)
app.command("report")(report_command)
app.command("tune")(tune_command)
app.command("plan")(plan_command)
app.add_typer(datasets.app, name="datasets")


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
