"""What a step of sharded training moves, and how long an epoch takes: the closed forms beside drawn negatives.

Every line is the same engine, model, graph and batch; only the objective differs. Bytes are those that process 0
hands to collectives per step: rows and their gradients sent to others, the regulariser's sums, the gradients of the
relations. Seconds are the mean of the timed steps times the steps of an epoch.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from experiments.context import PROGRAM, DeviceOption, ExperimentContext, own_command
from experiments.data import read_data
from staypositive.graph import KnowledgeGraph, load_graph
from staypositive.run import make_settings, training_task
from staypositive.sharded import World, open_world, shard_model
from staypositive.training import FactsInMemory, SteppedEngine, build_engine

OBJECTIVES: dict[str, dict[str, Any]] = read_data("settings")["sharded"]
PURPOSES = ("rows", "sums", "gradients")


def measure(graph: KnowledgeGraph, world: World, steps: int, settings: dict[str, Any]) -> dict[str, float]:
    """Take some steps, the first untimed; return bytes per step by purpose, and seconds per epoch."""
    chosen = make_settings(**settings)
    engine = build_engine("auto", training_task(graph, chosen, shard_model(graph, chosen, world), world))
    assert isinstance(engine, SteppedEngine)
    assert isinstance(engine.facts, FactsInMemory)
    batches = engine.facts.order(engine.generator).split(chosen.batch_size)
    engine.step(*engine.facts.take(batches[0]))
    world.sent.clear()
    world.wait()
    start = time.perf_counter()
    for place in range(1, steps + 1):
        batch = batches[place % (len(batches) - 1)]  # only whole batches
        engine.step(*engine.facts.take(batch))
    if world.device.type == "cuda":
        torch.cuda.synchronize()
    world.wait()
    seconds = (time.perf_counter() - start) / steps
    moved = {f"bytes_{purpose}": world.sent[purpose] / steps for purpose in PURPOSES}
    return moved | {"bytes_per_step": sum(moved.values()), "epoch_seconds": seconds * engine.batches}


def sharded(
    data: str = "WN18RR",
    model: str = "complex",
    dim: int = 100,
    batch_size: int = 1024,
    steps: int = 20,
    device: DeviceOption = "auto",
    results: Annotated[Path | None, typer.Option(help="Folder of results to add figures to.")] = None,
) -> None:
    """Measure bytes per step and seconds per epoch of each objective, under torchrun.

    Example: torchrun --nproc-per-node 2 -m experiments sharded --data WN18RR
    """
    graph = load_graph(data)
    common = {"model": model, "dim": dim, "batch_size": batch_size}
    with open_world(device) as world:
        command = own_command(PROGRAM.replace("python", f"torchrun --nproc-per-node {world.size}"))
        context = ExperimentContext(results or Path(), world.device, command, experiment="sharded")
        place = f"{world.size} processes, {world.backend}, batch {batch_size}"
        rows = []
        if world.rank == 0:
            print(f"{graph.name}, {model} {dim}, {place}; bytes per step by process 0")
            print(f"{'':15}{'rows':>12}{'sums':>12}{'relations':>12}{'all':>12}{'s per epoch':>12}", flush=True)
        for name, options in OBJECTIVES.items():
            found = measure(graph, world, steps, common | options)
            if world.rank == 0:
                shown = "".join(f"{found[f'bytes_{purpose}']:12,.0f}" for purpose in PURPOSES)
                print(f"{name:15}{shown}{found['bytes_per_step']:12,.0f}{found['epoch_seconds']:12.2f}", flush=True)
            about = context.columns(
                graph, model=model, objective=options["objective"], dim=dim, setting=f"{name}; {place}",
                split="train", negatives_drawn=options.get("negatives", 0) * batch_size * steps,
            )  # fmt: skip
            rows += [
                about | {"metric": metric, "value": value, "unit": "s" if "sec" in metric else "B"}
                for metric, value in found.items()
            ]
        if world.rank == 0 and results:
            print(context.add(rows), "rows")
