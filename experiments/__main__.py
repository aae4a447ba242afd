"""The entry point: `python -m experiments --help`, from a checkout of the repository."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from experiments import results
from experiments.context import PROGRAM
from experiments.failures import kills, soak
from experiments.paper import command
from experiments.quality import (
    als,
    defaults,
    discovery,
    engines_agree,
    first_runs,
    gram_interval,
    lighter_state,
    pykeen_training,
    second_moment,
)
from experiments.speed import bench, busy, by_hand, fit_costs, gpu, large, service, sharded
from experiments.tables import command as tables
from staypositive.errors import InputError, StayPositiveError

app = typer.Typer(
    name=PROGRAM, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


@app.callback()
def experiments() -> None:
    """Measure staypositive, and reproduce the paper. Figures go to --results FOLDER, which is results/ by default.

    Start with: python -m experiments bench, or python -m experiments reproduce all --dry-run
    """


PANELS: dict[str, list[Callable[..., None]]] = {
    "The paper": [command.reproduce],
    "Results and docs": [tables.tables],
    "Speed": [bench.bench, gpu.gpu, busy.busy, by_hand.by_hand, service.service, large.large, fit_costs.fit_costs],
    "Quality": [
        discovery.discovery, discovery.labels, discovery.completeness,
        defaults.defaults, first_runs.first_runs, second_moment.second_moment, engines_agree.engines_agree,
        lighter_state.lighter_state, gram_interval.gram_interval, als.als, pykeen_training.pykeen_training,
    ],
    "Sharded training": [sharded.sharded],
    "Failures": [kills.kills, soak.soak],
}  # fmt: skip
for panel, functions in PANELS.items():
    for function in functions:
        app.command(rich_help_panel=panel)(function)
app.add_typer(results.app, name="results", rich_help_panel="Results and docs")


def main() -> None:
    """Run the command line; an error of ours is one clear line."""
    try:
        app()
    except StayPositiveError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)


if __name__ == "__main__":
    main()
