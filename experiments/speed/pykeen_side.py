"""PyKEEN beside us: an epoch of its DistMult with drawn negatives, and its evaluator, where it is installed."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.speed.timing import Figure, Workload


def has_pykeen() -> bool:
    """Whether PyKEEN is installed, for a comparison side by side."""
    return importlib.util.find_spec("pykeen") is not None


def bench_pykeen(workload: Workload, dim: int, batch_size: int, repeats: int, negatives: int = 1) -> list[Figure]:
    """Time PyKEEN's DistMult with drawn negatives for an epoch, and its evaluator on the test facts, on the CPU."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import DistMult
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    def factory(facts: NDArray[np.int64]) -> Any:
        return CoreTriplesFactory(torch.as_tensor(facts), workload.n_entities, workload.n_relations)

    train = factory(workload.facts)
    model = DistMult(triples_factory=train, embedding_dim=dim, random_seed=0)
    loop = SLCWATrainingLoop(
        model=model, triples_factory=train, optimizer="adagrad", optimizer_kwargs={"lr": 0.1},
        negative_sampler="basic", negative_sampler_kwargs={"num_negs_per_pos": negatives},
    )  # fmt: skip
    epochs = repeats + 1

    def run(count: int) -> float:
        start = time.perf_counter()
        loop.train(train, num_epochs=count, batch_size=batch_size, use_tqdm=False, use_tqdm_batch=False)
        return time.perf_counter() - start

    seconds = (run(epochs) - run(1)) / (epochs - 1)
    figures: list[Figure] = [
        {"workload": workload.name, "model": "distmult", "engine": "PyKEEN", "objective": "negative-sampling",
         "dim": dim, "batch": batch_size, "negatives": negatives, "epoch_seconds": seconds,
         "triples_per_second": len(workload.facts) / seconds}
    ]  # fmt: skip
    if workload.test is not None and workload.known is not None:
        evaluator = RankBasedEvaluator(filtered=True)
        start = time.perf_counter()
        evaluator.evaluate(
            model, torch.as_tensor(workload.test), additional_filter_triples=[torch.as_tensor(workload.known)],
            use_tqdm=False, batch_size=256,
        )  # fmt: skip
        took = time.perf_counter() - start
        figures.append({"workload": workload.name, "model": "distmult", "engine": "PyKEEN ranking", "dim": dim,
                        "facts": len(workload.test), "seconds": took,
                        "queries_per_second": 2 * len(workload.test) / took})  # fmt: skip
    return figures
