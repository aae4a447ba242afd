"""`python -m experiments bench`: how fast training and ranking are here, and how far from what the memory allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from experiments.context import own_command
from experiments.paper.theorems import bench_theorem
from experiments.plots import plot_figures
from experiments.speed.pykeen_side import bench_pykeen, has_pykeen
from experiments.speed.timing import (
    Figure,
    Workload,
    bench_eager,
    bench_engine,
    bench_growth,
    bench_loading,
    bench_ranking,
    copy_bandwidth,
    device_label,
    rows_of_figures,
)
from experiments.store import add_rows
from staypositive.cli.console import Console, JsonFlag, QuietFlag, VerboseFlag
from staypositive.completion import complete_data
from staypositive.errors import SettingError
from staypositive.files import write_atomic
from staypositive.graph import CATALOGUE, load_graph
from staypositive.models import TABLES
from staypositive.objectives import NegativeSampling
from staypositive.training import resolve_device

PARTS = ("engines", "ranking", "theorem", "entities", "facts", "batch", "dim", "negatives", "loading")
ENGINE_NAMES = {"fused-cpu": "fused", "fused-gpu": "fused", "autograd": "reference"}
FORMULA = "bytes per fact = 16 · (distinct entity rows · width + distinct relation rows · width) / facts + 12"


def bench(
    data: Annotated[
        str,
        typer.Argument(
            help="A dataset's name, a folder of splits, or one file of triples.", autocompletion=complete_data
        ),
    ] = "geo",
    models: Annotated[str, typer.Option("--models", help="Block models, separated by commas.")] = "distmult,simple",
    dim: Annotated[int, typer.Option("--dim", min=1, help="Width of one block.")] = 200,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Facts per step.")] = 1415,
    parts: Annotated[
        str, typer.Option("--parts", help=f"What to measure, separated by commas: {', '.join(PARTS)}.")
    ] = "engines,ranking,theorem",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")] = "auto",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed epochs; the median counts.")] = 3,
    pykeen: Annotated[bool, typer.Option(help="Measure PyKEEN beside us, if it is installed (CPU).")] = True,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the figures as JSON.")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for plots (needs matplotlib).")] = None,
    results: Annotated[Path | None, typer.Option("--results", help="Folder of results to add figures to.")] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Time epochs of every engine, ranking, and the sum of all scores; all sides in this one run.

    Examples:
      python -m experiments bench

      python -m experiments bench FB15k-237AM --models distmult,simple,complex --parts engines,ranking

      python -m experiments bench FB15k-237AM --parts entities,facts,batch,dim,negatives --plots plots

    """
    console = Console(as_json, quiet, verbose)
    wanted, names = parts.split(","), models.split(",")
    if set(wanted) - set(PARTS):
        raise SettingError(f"expected parts among {', '.join(PARTS)}, got {parts!r}")
    if set(names) - set(TABLES):
        raise SettingError(f"expected block models among {', '.join(TABLES)}, got {models!r}")
    where = resolve_device(device)
    workload = Workload.of_graph(load_graph(data))
    bandwidth = copy_bandwidth(where)
    figures: list[Figure] = []
    with console.progress("measuring", len(wanted)) as advance:
        for part in wanted:
            figures += _measure(part, workload, names, dim, batch_size, where, bandwidth, repeats, pykeen)
            advance(1)
    about: dict[str, Any] = {
        "device": device_label(where),
        "threads": torch.get_num_threads(),
        "bandwidth": bandwidth,
    }
    _show(console, about, figures)
    if out is not None:
        write_atomic(out, json.dumps([about, *figures], indent=1) + "\n")
    if plots is not None:
        for path in plot_figures(figures, plots):
            console.say(f"drawn: {path}")
    if results is not None:
        experiment = "bench" if "engines" in wanted else "bench-growth"  # a comparison's sides come from one run
        count = add_rows(results, rows_of_figures(figures, about["device"], own_command(), experiment=experiment))
        console.say(f"{count} figures added to {results}")
    console.result([about, *figures])


def _measure(
    part: str, workload: Workload, models: list[str], dim: int, batch: int, device: torch.device, bandwidth: float,
    repeats: int, pykeen: bool,
) -> list[Figure]:  # fmt: skip
    """Measure one part; the sides of a comparison one after the other."""

    def engine(load: Workload, model: str, kind: str, dim: int, batch: int, **options: Any) -> Figure:
        return bench_engine(load, model, kind, dim, batch, device, bandwidth, repeats=repeats, **options)

    first, on_cpu = models[0], device.type == "cpu"
    if part == "engines":
        figures = []
        for model in models:
            figures += [engine(workload, model, kind, dim, batch) for kind in ("auto", "reference")]
            if model in ("distmult", "simple"):
                figures.append(bench_eager(workload, model, dim, batch, device, repeats))
        figures.append(engine(workload, first, "auto", dim, batch, dropout=0.4))
        figures.append(engine(workload, first, "auto", dim, 16384))
        figures += bench_pykeen(workload, dim, batch, repeats) if pykeen and on_cpu and has_pykeen() else []
        return figures
    if part == "ranking":
        has_test = workload.test is not None and len(workload.test) > 0
        return [bench_ranking(workload, first, dim, device, repeats)] if has_test else []
    if part == "loading":
        known = CATALOGUE.get(workload.name.casefold())
        return [bench_loading(workload.name, repeats)] if known is not None and known.files else []
    if part == "theorem":
        return [bench_theorem(entities, 10, first, dim, repeats) for entities in (500, 1000, 2000)]
    if part == "entities":
        width = 32 if on_cpu else dim
        loads = [Workload.synthetic(10**power, 1_000_000, power=1.0) for power in (4, 5, 6, 7)]
        return bench_growth(loads, first, width, batch, device, bandwidth, repeats)
    if part == "facts":
        width = 32 if on_cpu else dim
        loads = [Workload.synthetic(10**6, count, power=1.0) for count in (250_000, 500_000, 1_000_000, 2_000_000)]
        return bench_growth(loads, first, width, batch, device, bandwidth, repeats)
    if part == "batch":
        return [engine(workload, first, "auto", dim, size) for size in (256, 1024, 4096, 16384)]
    if part == "dim":
        return [engine(workload, first, "auto", width, batch) for width in (32, 64, 128, 256)]
    drawn = [None, *(NegativeSampling(negatives=n) for n in (1, 2, 5, 10))]
    return [engine(workload, first, "auto", dim, batch, objective=objective) for objective in drawn]


def _show(console: Console, about: Figure, figures: list[Figure]) -> None:
    console.say(f"{about['device']}, {about['threads']} threads; a copy moves {about['bandwidth'] / 1e9:.1f} GB/s")
    loads = sorted({f["workload"] for f in figures if "workload" in f})
    several = len(loads) > 1
    header = ["", "n", "d", "batch", "s per epoch", "M facts/s", "B per fact", "of floor"]
    rows = [
        [(f"{f['workload']}, " if several else "") + f"{f['model']}, {ENGINE_NAMES.get(f['engine'], f['engine'])}"
         + (f", dropout {f['dropout']}" if f.get("dropout") else ""),
         f.get("negatives", 0),
         f["dim"], f["batch"], f["epoch_seconds"], f["triples_per_second"] / 1e6, f.get("bytes_per_fact"),
         f.get("bandwidth_fraction")]
        for f in figures
        if "epoch_seconds" in f
    ]  # fmt: skip
    if rows:
        console.table(f"Epochs on {', '.join(loads)} (n: negatives drawn per fact)", header, rows)
        console.say(f"{FORMULA}; of floor: the share of the copy's bandwidth that those bytes reach")
    ranked = [[f["workload"], f["engine"], f["facts"], f["seconds"]] for f in figures if "seconds" in f]
    if ranked:
        console.table("Filtered ranking, both sides", ["workload", "engine", "facts", "seconds"], ranked)
    for f in figures:
        if "parse_seconds" in f:
            parsed, cached = f["parse_seconds"], f["cached_seconds"]
            console.say(f"{f['workload']}, {f['engine']}: {parsed:.3f} s parsed, {cached:.3f} s from the cache")
    keys = ("model", "entities", "relations", "dim", "theorem_seconds", "enumeration_seconds", "ratio")
    sums = [[f[key] for key in keys] for f in figures if "theorem_seconds" in f]
    if sums:
        console.table("Sum of all scores: Theorem 1 against enumeration", list(keys), sums)
