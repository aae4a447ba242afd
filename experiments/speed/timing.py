"""How fast a training step is, and how far from what the memory allows.

Every figure is a dictionary; sides that are compared run in one process, on one machine, one after the other.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.speed.eager import EagerStayPositive
from staypositive.evaluation import rank_facts, ranking_metrics
from staypositive.graph import SPLITS, KnowledgeGraph, find_dataset
from staypositive.models import Scorer, build_model
from staypositive.objectives import Objective, StayPositive
from staypositive.run.provenance import code_commit
from staypositive.training import Engine, TrainingTask, build_engine, build_optimiser
from staypositive.version import __version__

Figure = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """What a benchmark trains on: facts by id, and what there is to rank."""

    name: str
    facts: NDArray[np.int64]
    n_entities: int
    n_relations: int
    test: NDArray[np.int64] | None = None
    known: NDArray[np.int64] | None = None

    @classmethod
    def of_graph(cls, graph: KnowledgeGraph) -> Workload:
        """Take the training facts and the test facts of a graph."""
        return cls(
            graph.name, graph.train.facts, len(graph.entities), len(graph.relations), graph.test.facts, graph.facts()
        )

    @classmethod
    def synthetic(cls, n_entities: int, n_facts: int, n_relations: int = 200, power: float = 2.0) -> Workload:
        """Draw facts whose entities follow a power law: entity number = |E|·uᵖ, u uniform."""
        draw = np.random.default_rng(0)

        def entities() -> NDArray[np.int64]:
            return (n_entities * draw.random(n_facts) ** power).astype(np.int64)

        facts = np.column_stack([entities(), draw.integers(n_relations, size=n_facts), entities()])
        return cls(f"power-law {n_entities:.0e}, {n_facts:,} facts", facts, n_entities, n_relations)


def wait(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def copy_bandwidth(device: torch.device, megabytes: int = 512) -> float:
    """Return the bytes a second that a large copy moves, read and written bytes both counted: the best of five."""
    source = torch.zeros(megabytes * 2**20 // 4, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(6):
        wait(device)
        start = time.perf_counter()
        target.copy_(source)
        wait(device)
        seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(seconds[1:])


def bytes_per_fact(workload: Workload, batch_size: int, entity_width: int, relation_width: int) -> Figure:
    """Count what a step must move: each distinct row's weights and squares, read once and written once.

    bytes = 4 B · 4 passes · (distinct entity rows · width + distinct relation rows · width) + 12 B of ids per fact
    """
    order = np.random.default_rng(0).permutation(len(workload.facts))
    starts = list(range(0, len(order), batch_size))[:50]
    batches = [workload.facts[order[start : start + batch_size]] for start in starts]
    entities = sum(len(np.unique(batch[:, [0, 2]])) for batch in batches)
    relations = sum(len(np.unique(batch[:, 1])) for batch in batches)
    count = sum(map(len, batches))
    moved = 16 * (entities * entity_width + relations * relation_width) + 12 * count
    return {
        "bytes_per_fact": moved / count,
        "entity_rows_per_batch": entities / len(batches),
        "relation_rows_per_batch": relations / len(batches),
    }


def time_calls(call: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Return the median seconds of a call, after one that does not count."""
    return time_in_turn([call], device, repeats)[0]


def time_in_turn(calls: Sequence[Callable[[], Any]], device: torch.device, repeats: int) -> list[float]:
    """Return the median seconds of each call. They take turns, so that a slow minute of the machine meets all."""
    seconds: list[list[float]] = [[] for _ in calls]
    for round_ in range(repeats + 1):  # the first does not count
        for call, own in zip(calls, seconds, strict=True):
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            if round_:
                own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in seconds]


def new_engine(
    workload: Workload, model: str, objective: Objective, engine: str, dim: int, batch_size: int,
    device: torch.device, dropout: float = 0.0, optimiser: str = "adagrad", precision: str = "float32",
) -> Engine:  # fmt: skip
    """Build an engine for a workload."""
    with device:  # large tables are drawn where they stay
        built = build_model(
            model, workload.n_entities, workload.n_relations, dim, bound=objective.defaults.bound, dropout=dropout
        )
    built.initialise(torch.Generator(device).manual_seed(0), objective.defaults.init_scale)
    built = built.to(getattr(torch, precision))
    tables = {"entities": built.entities.data, "relations": built.relations.data}
    stepper = build_optimiser(optimiser, tables, 0.1, objective.defaults.accumulator)
    facts = torch.as_tensor(workload.facts, device=device)
    return build_engine(engine, TrainingTask(built, objective, stepper, facts, batch_size, 0))


def bench_engine(
    workload: Workload, model: str, engine: str, dim: int, batch_size: int, device: torch.device, bandwidth: float,
    *, objective: Objective | None = None, dropout: float = 0.0, repeats: int = 3, optimiser: str = "adagrad",
    precision: str = "float32",
) -> Figure:  # fmt: skip
    """Time an epoch of one engine, shuffling and distinct rows included, against the memory's floor."""
    objective = objective or StayPositive()
    built = new_engine(workload, model, objective, engine, dim, batch_size, device, dropout, optimiser, precision)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds = time_calls(built.run_epoch, device, repeats)
    return _figure(
        workload, model, built, objective, seconds, dim, batch_size, device, bandwidth, dropout, optimiser, precision
    )


def bench_growth(
    workloads: Sequence[Workload], model: str, dim: int, batch_size: int, device: torch.device, bandwidth: float,
    repeats: int,
) -> list[Figure]:  # fmt: skip
    """Time epochs on several workloads, which take turns."""
    objective = StayPositive()
    engines = [new_engine(work, model, objective, "auto", dim, batch_size, device) for work in workloads]
    seconds = time_in_turn([engine.run_epoch for engine in engines], device, repeats)
    return [
        _figure(work, model, built, objective, took, dim, batch_size, device, bandwidth)
        for work, built, took in zip(workloads, engines, seconds, strict=True)
    ]


def _figure(
    workload: Workload, model: str, built: Engine, objective: Objective, seconds: float, dim: int, batch_size: int,
    device: torch.device, bandwidth: float, dropout: float = 0.0, optimiser: str = "adagrad",
    precision: str = "float32",
) -> Figure:  # fmt: skip
    widths = built.model.entities.shape[1], built.model.relations.shape[1]
    floor = bytes_per_fact(workload, batch_size, *widths)
    facts = len(workload.facts)
    figure: Figure = {
        "workload": workload.name,
        "model": model,
        "engine": built.name,
        "objective": objective.name,
        "dim": dim,
        "batch": batch_size,
        "dropout": dropout,
        "optimiser": optimiser,
        "precision": precision,
        "negatives": objective.negatives_per_fact,
        "epoch_seconds": seconds,
        "triples_per_second": facts / seconds,
    }
    plain = (optimiser, precision, objective.touches_all_rows) == ("adagrad", "float32", False)
    if plain and not objective.negatives_per_fact:  # what must be moved is counted only for these steps
        fraction = floor["bytes_per_fact"] * facts / bandwidth / seconds
        figure |= {**floor, "bandwidth_fraction": fraction}
    if device.type == "cuda":
        figure["peak_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
    return figure


def bench_eager(
    workload: Workload, model: str, dim: int, batch_size: int, device: torch.device, repeats: int
) -> Figure:
    """Time an epoch of the plain eager version, from a tenth of an epoch's steps."""
    width = dim if model == "distmult" else 2 * dim
    draw = torch.Generator().manual_seed(0)
    entities, relations = (
        torch.rand(n, width, generator=draw).to(device) for n in (workload.n_entities, workload.n_relations)
    )
    batches = -(-len(workload.facts) // batch_size)
    eager = EagerStayPositive(model, entities, relations, penalty=0.1 / batches, learning_rate=0.1)
    facts = torch.as_tensor(workload.facts, device=device)
    steps = max(1, batches // 10)

    def some_steps() -> None:
        for chosen in torch.randperm(len(facts), device=device)[: steps * batch_size].split(batch_size):
            eager.step(facts[chosen])

    seconds = time_calls(some_steps, device, repeats) * len(facts) / min(steps * batch_size, len(facts))
    return {"workload": workload.name, "model": model, "engine": "eager dense", "objective": "stay-positive",
            "dim": dim, "batch": batch_size, "epoch_seconds": seconds,
            "triples_per_second": len(facts) / seconds}  # fmt: skip


def bench_ranking(workload: Workload, model: str, dim: int, device: torch.device, repeats: int) -> Figure:
    """Time the filtered ranking of all test facts, both sides: every reading and tie rule in one pass."""
    assert workload.test is not None
    assert workload.known is not None
    test, known = workload.test, workload.known
    built = build_model(model, workload.n_entities, workload.n_relations, dim)
    built.initialise(torch.Generator().manual_seed(0))
    scorer = Scorer(built.to(device))

    def rank() -> float:
        with torch.no_grad():
            return ranking_metrics(rank_facts(scorer, test, known))["mrr"]

    seconds = time_calls(rank, device, repeats)
    return {"workload": workload.name, "model": model, "engine": "ranking", "dim": dim, "facts": len(test),
            "seconds": seconds, "queries_per_second": 2 * len(test) / seconds}  # fmt: skip


def bench_loading(name: str, repeats: int) -> Figure:
    """Time a named dataset's way from its files to a checked, encoded graph: parsed, and from the cache."""
    dataset = find_dataset(name)
    paths, device = dataset.fetch_all(), torch.device("cpu")
    parsed = time_calls(lambda: dataset.parse(paths), device, repeats)
    cached = time_calls(dataset.load, device, repeats)
    graph = dataset.load()
    lines = sum(len(graph.split(split)) for split in SPLITS)
    return {"workload": dataset.name, "model": "", "dim": "", "engine": f"loading {lines:,} lines",
            "parse_seconds": parsed, "cached_seconds": cached}  # fmt: skip


def device_label(device: torch.device) -> str:
    """Return a device as benchmarks name it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})"


def rows_of_figures(
    figures: list[Figure], device: str, command: str, *, experiment: str = "bench", commit: str | None = None
) -> list[Figure]:
    """Return the rows of the results that benchmark figures make."""
    units = {
        "epoch_seconds": "s", "triples_per_second": "1/s", "bytes_per_fact": "B", "bandwidth_fraction": "",
        "peak_gb": "GB", "seconds": "s", "theorem_seconds": "s", "enumeration_seconds": "s", "theorem_peak_mb": "MB",
        "enumeration_peak_mb": "MB", "parse_seconds": "s", "cached_seconds": "s",
    }  # fmt: skip
    rows = []
    for figure in figures:
        setting = [str(figure.get("engine", "theorem"))]
        setting += [
            f"{key} {figure[key]}" for key in ("batch", "entities", "relations", "negatives") if figure.get(key)
        ]
        setting += [f"dropout {figure['dropout']}"] if figure.get("dropout") else []
        usual = {"optimiser": "adagrad", "precision": "float32"}
        setting += [figure[key] for key, value in usual.items() if figure.get(key, value) != value]
        setting += [figure["objective"]] if figure.get("objective") == "1vsall" else []
        for metric, unit in units.items():
            if metric in figure:
                rows.append(
                    {
                        "experiment": experiment,
                        "dataset": figure.get("workload", "synthetic"),
                        "model": figure["model"],
                        "objective": figure.get("objective", ""),
                        "dim": figure["dim"],
                        "setting": ", ".join(setting),
                        "metric": "ranking_seconds" if metric == "seconds" else metric,
                        "value": float(figure[metric]),
                        "unit": unit,
                        "seed": 0,
                        "negatives_drawn": figure.get("negatives", 0),
                        "selected_on": "fixed",
                        "device": device,
                        "version": __version__,
                        "commit": code_commit() if commit is None else commit,
                        "command": command,
                    }
                )
    return rows
