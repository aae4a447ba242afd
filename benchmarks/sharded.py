"""What a step of sharded training moves, and how long an epoch takes: the closed forms beside drawn negatives.

    torchrun --nproc-per-node 2 benchmarks/sharded.py [WN18RR] [--model complex] [--dim 100] [--rows FILE]

Every line is the same engine, model, graph and batch; the objective alone differs. Bytes are those that process 0
hands to collectives in a step: rows and their gradients sent to others, the regulariser's sums, the gradients of the
relations. Seconds are the mean of the timed steps times the steps of an epoch.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from staypositive.cli.common import own_command
from staypositive.experiments import write_rows
from staypositive.graph import KnowledgeGraph, load_graph
from staypositive.run import make_settings
from staypositive.run.provenance import provenance
from staypositive.sharded import World, new_sharded_engine, open_world, shard_model
from staypositive.version import __version__

OBJECTIVES: dict[str, dict[str, Any]] = {
    "scope batch": {"objective": "stay-positive"},
    "scope all": {"objective": "stay-positive", "scope": "all"},
    "second moment": {"objective": "second-moment", "reciprocal": False},
    "n = 1": {"objective": "negative-sampling", "negatives": 1},
    "n = 10": {"objective": "negative-sampling", "negatives": 10},
    "n = 100": {"objective": "negative-sampling", "negatives": 100},
}
PURPOSES = ("rows", "sums", "relations")


def measure(graph: KnowledgeGraph, world: World, steps: int, settings: dict[str, Any]) -> dict[str, float]:
    """Take some steps, the first untimed; return bytes a step by purpose, and seconds an epoch."""
    chosen = make_settings(**settings)
    engine = new_sharded_engine(graph, chosen, shard_model(graph, chosen, world), world)
    order = torch.randperm(len(engine.facts), generator=engine.generator, device=engine.facts.device)
    batches = order.split(chosen.batch_size)
    engine.step(engine.facts[batches[0]], engine.prepared_for(batches[0]))
    world.sent.clear()
    world.wait()
    start = time.perf_counter()
    for place in range(1, steps + 1):
        batch = batches[place % (len(batches) - 1)]  # whole batches alone
        engine.step(engine.facts[batch], engine.prepared_for(batch))
    if world.device.type == "cuda":
        torch.cuda.synchronize()
    world.wait()
    seconds = (time.perf_counter() - start) / steps
    moved = {f"bytes_{purpose}": world.sent[purpose] / steps for purpose in PURPOSES}
    return moved | {"bytes_per_step": sum(moved.values()), "epoch_seconds": seconds * engine.batches}


def main() -> None:
    """Measure each objective in turn; process 0 prints a table and writes rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="WN18RR")
    parser.add_argument("--model", default="complex")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=Path)
    chosen = parser.parse_args()
    graph = load_graph(chosen.data)
    common = {"model": chosen.model, "dim": chosen.dim, "batch_size": chosen.batch_size}
    with open_world(chosen.device) as world:
        origin = provenance(graph, world.device, __version__)
        command = own_command(("--rows",), f"torchrun --nproc-per-node {world.size} benchmarks/sharded.py")
        place = f"{world.size} processes, {world.backend}, batch {chosen.batch_size}"
        rows = []
        if world.rank == 0:
            print(f"{graph.name}, {chosen.model} {chosen.dim}, {place}; bytes a step by process 0")
            print(f"{'':15}{'rows':>12}{'sums':>12}{'relations':>12}{'all':>12}{'s an epoch':>12}", flush=True)
        for name, options in OBJECTIVES.items():
            found = measure(graph, world, chosen.steps, common | options)
            if world.rank == 0:
                shown = "".join(f"{found[f'bytes_{purpose}']:12,.0f}" for purpose in PURPOSES)
                print(f"{name:15}{shown}{found['bytes_per_step']:12,.0f}{found['epoch_seconds']:12.2f}", flush=True)
            drawn = options.get("negatives", 0) * chosen.batch_size * chosen.steps
            rows += [
                {
                    "experiment": "sharded", "dataset": graph.name, "model": chosen.model,
                    "objective": options["objective"], "dim": chosen.dim, "setting": f"{name}; {place}",
                    "split": "train", "metric": metric, "value": value, "unit": "s" if "sec" in metric else "B",
                    "seed": 0, "negatives_drawn": drawn, "selected_on": "fixed", "device": origin["device"],
                    "version": origin["version"], "commit": origin["commit"],
                    "data_sha256": origin["graph_sha256"], "command": command,
                }
                for metric, value in found.items()
            ]  # fmt: skip
        if world.rank == 0 and chosen.rows:
            print(write_rows(chosen.rows, rows), "rows")


if __name__ == "__main__":
    main()
