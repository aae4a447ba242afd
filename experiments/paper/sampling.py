"""Table 1 and Figure 2: what drawing negatives costs, with a sampler that loops as was usual, and with ours.

Both samplers draw the same kind of corruption (head or tail by a fair coin, an entity uniformly). The looping one is
written here as such samplers were: one fact at a time, in Python.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.speed.timing import Figure, Workload, new_engine
from staypositive.models.hashing import step_keys
from staypositive.objectives import NegativeSampling, StayPositive
from staypositive.training import Engine

RATIOS = (1, 2, 5, 10, 20, 50, 100)


def draw_in_a_loop(facts: Tensor, negatives: int, n_entities: int, draw: random.Random) -> Tensor:
    """Return corruptions of some facts, shape (n · negatives, 3), drawn one by one."""
    drawn = []
    for head, relation, tail in facts.tolist():
        for _ in range(negatives):
            entity = draw.randrange(n_entities)
            drawn.append((entity, relation, tail) if draw.random() < 0.5 else (head, relation, entity))
    return torch.tensor(drawn)


def time_drawing(workload: Workload, negatives: int, batch_size: int, looping: bool, repeats: int) -> float:
    """Return the median seconds of drawing an epoch's negatives."""
    facts = torch.as_tensor(workload.facts)
    objective, draw = NegativeSampling(negatives=negatives), random.Random(0)

    def epoch() -> None:
        for step, batch in enumerate(facts.split(batch_size)):
            if looping:
                draw_in_a_loop(batch, negatives, workload.n_entities, draw)
            else:
                objective.examples(batch[None], workload.n_entities, step_keys(0, step, 1, facts.device))

    return _median(epoch, repeats)


def _median(call: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _epoch_seconds(engine: Engine, repeats: int) -> float:
    engine.run_epoch()
    return _median(engine.run_epoch, repeats)


def sampling_share(
    workload: Workload, model: str, engine: str, negatives: int, batch_size: int, dim: int, repeats: int
) -> list[Figure]:
    """Return the share of an epoch that drawing takes, for both samplers (Table 1).

    The rest of an epoch is the engine's epoch less its own drawing, which is measured by itself.
    """
    device = torch.device("cpu")
    built = new_engine(workload, model, NegativeSampling(negatives=negatives), engine, dim, batch_size, device)
    ours = time_drawing(workload, negatives, batch_size, looping=False, repeats=repeats)
    rest = max(_epoch_seconds(built, repeats) - ours, 0.0)
    looped = time_drawing(workload, negatives, batch_size, looping=True, repeats=max(1, repeats // 5))
    return [
        {
            "workload": workload.name, "model": model, "engine": built.name, "sampler": sampler,
            "negatives": negatives, "dim": dim, "batch": batch_size, "drawing_seconds": drawing,
            "rest_seconds": rest, "share": drawing / (drawing + rest), "epochs": repeats,
        }
        for sampler, drawing in (("loop", looped), ("vectorised", ours))
    ]  # fmt: skip


def time_reduction(
    workload: Workload, engine: str, batch_size: int, dim: int, repeats: int, ratios: Sequence[int] = RATIOS,
    progress: Callable[[int], Any] | None = None,
) -> list[Figure]:  # fmt: skip
    """Return how much shorter an epoch of spSimplE is than one of SimplE, by negative ratio (Figure 2).

    spSimplE's batch is (n + 1) times larger, as in the paper. `loop` counts the looping sampler's time, not ours.
    """
    device, figures = torch.device("cpu"), []
    for ratio in ratios:
        drawn = NegativeSampling(negatives=ratio)
        plain = _epoch_seconds(new_engine(workload, "simple", drawn, engine, dim, batch_size, device), repeats)
        ours = time_drawing(workload, ratio, batch_size, looping=False, repeats=1)
        looped = time_drawing(workload, ratio, batch_size, looping=True, repeats=1)
        larger = min(batch_size * (ratio + 1), len(workload.facts))
        positive = new_engine(workload, "simple", StayPositive(), engine, dim, larger, device)
        quick = _epoch_seconds(positive, repeats)
        for sampler, whole in (("loop", plain - ours + looped), ("vectorised", plain)):
            figures.append(
                {
                    "workload": workload.name, "model": "simple", "engine": positive.name,
                    "sampler": sampler, "negatives": ratio, "dim": dim, "batch": batch_size,
                    "baseline_seconds": whole, "stay_positive_seconds": quick, "reduction": (whole - quick) / whole,
                }
            )  # fmt: skip
        if progress is not None:
            progress(1)
    return figures
