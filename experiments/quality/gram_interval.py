"""What `gram_update_interval` costs and saves in second-moment training: validation MRR and CPU seconds per epoch."""

from __future__ import annotations

import itertools
import time
from typing import Annotated

import torch
import typer

from experiments.context import RESULTS, ExperimentContext, ResultsOption
from experiments.paper.packed_runs import Outcome
from experiments.paper.paper import Cell
from experiments.paper.table2 import about_row
from staypositive.graph import load_graph
from staypositive.run import new_model, training_task
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import make_settings
from staypositive.training import build_engine

CPU = torch.device("cpu")


def gram_interval(
    dataset: str,
    every: Annotated[str, typer.Option(help="Steps between updates, separated by commas.")] = "1,4,16,64",
    dim: int = 64,
    batch: int = 1000,
    epochs: int = 20,
    seeds: int = 2,
    w0: float = 0.01,
    results: ResultsOption = RESULTS,
) -> None:
    """Train second moments, taking the Gram matrix's gradient every k steps: validation MRR and CPU seconds.

    Example: python -m experiments gram-interval CoDEx-S --dim 64 --epochs 20
    """
    torch.set_num_threads(1)
    graph = load_graph(dataset)
    measure = validation_measure(graph, None, "mrr")
    common = {"model": "complex", "objective": "second-moment", "dim": dim, "batch_size": batch}
    context = ExperimentContext.start("spread", results)
    ranked = {"filter": "filtered", "ties": "realistic", "side": "both"}
    for steps, seed in itertools.product(map(int, every.split(",")), range(seeds)):
        settings = make_settings(**common, unobserved_weight=w0, gram_update_interval=steps, seed=seed)
        model = new_model(graph, settings)
        engine = build_engine(settings.engine, training_task(graph, settings, model))
        times = []
        for _ in range(epochs):
            start = time.process_time()
            engine.run_epoch()
            times.append(time.process_time() - start)
        mrr, seconds = measure(model.eval()), min(times)  # a busy machine makes epochs longer, never shorter
        print(f"{graph.name}, every {steps} steps, seed {seed}: MRR {mrr:.4f}, {seconds:.3f} s per epoch", flush=True)
        cell, outcome = Cell("", "complex", "second-moment", graph.name), Outcome(settings, model)
        about = about_row(cell, outcome, graph, context, "fixed") | {"split": "valid"}
        about |= {"setting": f"gram_update_interval {steps}, {epochs} epochs; {about['setting']}"}
        figures = [
            {"metric": "epoch_cpu_seconds", "value": seconds, "unit": "s"},
            ranked | {"metric": "mrr", "value": mrr},
        ]
        context.add(about | figure for figure in figures)
