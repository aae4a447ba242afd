"""What row-wise AdaGrad and rows in bfloat16 do to quality: filtered validation MRR of spDistMult."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from experiments.context import (
    RESULTS,
    CommitOption,
    DeviceOption,
    ExperimentContext,
    GraphsOption,
    ResultsOption,
    load,
)
from experiments.data import read_data
from experiments.paper.packed_runs import Schedule, train_runs
from experiments.paper.table2 import describe
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import make_settings

STATES: dict[str, dict[str, Any]] = read_data("settings")["lighter-state"]


def lighter_state(
    datasets: Annotated[str, typer.Option(help="Separated by commas.")] = "WN18AM,FB15k-237AM",
    epochs: int = 400,
    seeds: int = 3,
    device: DeviceOption = "auto",
    results: ResultsOption = RESULTS,
    graphs: GraphsOption = None,
    commit: CommitOption = None,
) -> None:
    """Train every kind of optimiser state and precision from every seed, side by side where the device can."""
    context = ExperimentContext.start("lighter-state", results, device, commit)
    place = {"split": "valid", "side": "both", "filter": "filtered", "ties": "realistic", "metric": "mrr"}
    for name in datasets.split(","):
        graph = load(name, graphs)
        batch = -(-len(graph.train.facts) // 100)
        common = {"model": "distmult", "dim": 200, "learning_rate": 0.1, "prior_score": -1.0, "batch_size": batch}
        states = [(state, options | {"seed": seed}) for state, options in STATES.items() for seed in range(seeds)]
        settings = [make_settings(**common, **options) for _, options in states]
        outcomes = train_runs(graph, settings, Schedule(epochs, 50), validation_measure(graph), context.device)
        rows = []
        for (state, _), outcome in zip(states, outcomes, strict=True):
            one = outcome.settings
            own = {"setting": f"{state}; {describe(one)}", "seed": one.seed, "value": outcome.best_value}
            rows.append(context.columns(graph, model="distmult", objective="stay-positive", dim=200) | place | own)
            print(name, state, one.seed, outcome.best_epoch, round(outcome.best_value, 4), flush=True)
        context.add(rows)
