"""Theorems 1 to 3 as measured curves: the sum of all scores against enumeration, and epochs against the negatives."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.speed.timing import Figure, Workload, bench_engine, time_calls
from staypositive.models import MODELS, BilinearModel, Scorer, build_model
from staypositive.objectives import NegativeSampling

BASE = {"n_entities": 1000, "n_relations": 10, "dim": 32}
SWEEPS = {
    "n_entities": (500, 1000, 2000, 4000, 8000),
    "n_relations": (10, 20, 40, 80),
    "dim": (32, 64, 128, 256),
}
RATIOS = (1, 2, 5, 10, 20)


def bench_theorem(n_entities: int, n_relations: int, model: str, dim: int, repeats: int) -> Figure:
    """Time the sum of all |E|²|R| scores by Theorem 1, and by enumeration in chunks of one relation."""
    built: BilinearModel = build_model(model, n_entities, n_relations, dim)
    built.initialise(torch.Generator().manual_seed(0))
    device = torch.device("cpu")

    def closed() -> Tensor:
        rows = built.entity_rows()
        return built.sum_rows(rows, built.relation_rows(), rows)

    def enumerated() -> float:
        scorer, heads, total = Scorer(built), torch.arange(n_entities), 0.0
        for relation in range(n_relations):
            for chunk in heads.split(1024):
                total += float(scorer.tails(chunk, torch.full_like(chunk, relation)).double().sum())
        return total

    with torch.no_grad():
        quick, slow = time_calls(closed, device, repeats), time_calls(enumerated, device, 1)
        gap = abs(float(closed()) - enumerated()) / (n_entities**2 * n_relations)
    return {"model": model, "dim": dim, "entities": n_entities, "relations": n_relations, "theorem_seconds": quick,
            "enumeration_seconds": slow, "ratio": slow / quick, "difference_of_means": gap}  # fmt: skip


def sums(models: tuple[str, ...] = tuple(MODELS), repeats: int = 5) -> Iterator[Figure]:
    """Time Theorem 1 and enumeration for each model, growing one size at a time."""
    for model in models:
        for size, values in SWEEPS.items():
            for value in values:
                shape = {**BASE, size: value}
                yield bench_theorem(shape["n_entities"], shape["n_relations"], model, shape["dim"], repeats) | {
                    "grown": size
                }


def epochs(workload: Workload, model: str, dim: int, batch_size: int, repeats: int = 3) -> Iterator[Figure]:
    """Time epochs with n negatives (Theorem 2) and without (Theorem 3), same batch and engine."""
    device = torch.device("cpu")
    for ratio in (0, *RATIOS):
        objective = NegativeSampling(negatives=ratio) if ratio else None
        yield bench_engine(
            workload, model, "auto", dim, batch_size, device, 1.0, objective=objective, repeats=repeats
        )


def memory(n_entities: int, n_relations: int, model: str, dim: int) -> Figure:
    """Measure how far the sum raises a fresh process's peak memory: by Theorem 1, and with all scores at once."""
    peaks = {way: _peak(way, n_entities, n_relations, model, dim) for way in ("theorem", "enumeration")}
    return {
        "model": model, "dim": dim, "entities": n_entities, "relations": n_relations,
        **{f"{way}_peak_mb": peak for way, peak in peaks.items()},
    }  # fmt: skip


def _peak(*arguments: Any) -> float:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_child, arguments)


def _child(way: str, n_entities: int, n_relations: int, model: str, dim: int) -> float:
    """Return the growth of the peak in MB, after a small case has loaded all code that the sum needs."""
    ways: dict[str, Callable[[int], Any]] = {"theorem": _by_theorem, "enumeration": _by_enumeration}
    made = [build_model(model, n, n_relations, dim) for n in (10, n_entities)]
    for one in made:
        one.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        ways[way](made[0])  # type: ignore[arg-type]
        before = _peak_so_far()
        ways[way](made[1])  # type: ignore[arg-type]
    return (_peak_so_far() - before) / 1024


def _peak_so_far() -> int:
    """Return the peak memory of this process in KB (Linux)."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0])


def _by_theorem(model: Any) -> float:
    rows = model.entity_rows()
    return float(model.sum_rows(rows, model.relation_rows(), rows))


def _by_enumeration(model: Any) -> float:
    scorer = Scorer(model)
    heads, relations = torch.cartesian_prod(torch.arange(model.n_entities), torch.arange(model.n_relations)).unbind(1)
    return float(scorer.tails(heads, relations).sum())
