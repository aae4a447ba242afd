"""The GPU's figures: fused and reference engines, growth with |E|, ranking; and where an epoch goes, by kernel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from experiments.context import RESULTS, CommitOption, GraphsOption, ResultsOption, load, own_command
from experiments.speed.timing import (
    Figure,
    Workload,
    bench_eager,
    bench_engine,
    bench_ranking,
    copy_bandwidth,
    new_engine,
    rows_of_figures,
    time_calls,
)
from experiments.store import add_rows
from staypositive.objectives import NegativeSampling, OneVsAll, StayPositive

BATCHES = (65536, 1415)
MODELS = ("distmult", "simple", "complex")


def gpu(
    large: Annotated[float, typer.Option(help="Entities of the largest synthetic graph.")] = 1e7,
    repeats: int = 5,
    profile: Annotated[bool, typer.Option("--profile", help="Print the time by kernel instead.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON too.")] = None,
    results: ResultsOption = RESULTS,
    graphs: GraphsOption = None,
    commit: CommitOption = None,
) -> None:
    """Time epochs and ranking on a CUDA device: FB15k-237AM, and synthetic graphs of up to 10⁷ entities."""
    device, work = torch.device("cuda"), Workload.of_graph(load("FB15k-237AM", graphs))
    if profile:
        for model in MODELS:
            for batch in reversed(BATCHES):
                show_kernels(work, model, batch)
        show_kernels(Workload.synthetic(int(large), 4_000_000, power=1.0), "distmult", BATCHES[0])
        return
    bandwidth, name = copy_bandwidth(device, 4096), torch.cuda.get_device_name()
    found: list[Figure] = [{"device": name, "bandwidth": bandwidth}]
    print(found[0], flush=True)
    for figure in figures(work, device, bandwidth, large, repeats):
        found.append(figure)
        print({key: round(v, 5) if isinstance(v, float) else v for key, v in figure.items()}, flush=True)
        add_rows(results, rows_of_figures([figure], name, own_command(), experiment="bench-gpu", commit=commit))
        if out is not None:
            out.write_text(json.dumps(found, indent=1), "utf-8")


def figures(work: Workload, device: torch.device, bandwidth: float, large: float, repeats: int) -> Iterator[Figure]:
    """Yield every case's figure."""

    def bench(load: Workload, model: str, engine: str, batch: int, **options: Any) -> Figure:
        return bench_engine(load, model, engine, 200, batch, device, bandwidth, **options)

    for batch in BATCHES:
        for model in MODELS:
            yield bench(work, model, "fused", batch, repeats=repeats)
        yield bench(work, "distmult", "fused", batch, dropout=0.4)
        yield bench(work, "distmult", "reference", batch)
    for engine in ("fused", "reference"):
        yield bench(work, "distmult", engine, 1415, objective=NegativeSampling(negatives=10))
    for engine in ("auto", "reference"):
        yield bench(work, "complex", engine, 1415, objective=OneVsAll())
    yield bench_eager(work, "distmult", 200, 1415, device, 3)
    yield bench_ranking(work, "distmult", 200, device, 3)
    for size in [size for size in (1e5, 1e6, 1e7) if size <= large]:
        graph = Workload.synthetic(int(size), 4_000_000, power=1.0)
        for batch in (65536, 1415 * 8):
            yield bench(graph, "distmult", "fused", batch)
    for lighter in ({"optimiser": "adagrad-rowwise"}, {"precision": "bfloat16"},
                    {"optimiser": "adagrad-rowwise", "precision": "bfloat16"}):  # fmt: skip
        yield bench(graph, "distmult", "fused", 65536, **lighter)
        torch.cuda.empty_cache()


def show_kernels(work: Workload, model: str, batch: int) -> None:
    """Print the kernels of one epoch after two that warm up."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    device = torch.device("cuda")
    engine = new_engine(work, model, StayPositive(), "fused", 200, batch, device)
    seconds = time_calls(engine.run_epoch, device, 3)
    with profiled(activities=[ProfilerActivity.CUDA]) as trace:
        engine.run_epoch()
        torch.cuda.synchronize()
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in trace.events():
        times[event.name] += event.device_time
        counts[event.name] += 1
    rate = len(work.facts) / seconds / 1e6
    print(f"{work.name} {model} {batch}: epoch {1e3 * seconds:.2f} ms, {rate:.0f} M facts/s", flush=True)
    for name, spent in times.most_common(8):
        print(f"  {spent / 1e3:9.3f} ms {counts[name]:6d} × {name[:90]}")
