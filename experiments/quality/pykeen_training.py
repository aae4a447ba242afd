"""PyKEEN's DistMult on one dataset, trained by PyKEEN's own loops and by ours: ranks, probabilities, seconds.

Model, optimiser, batch size, number of epochs and threads are the same in all; loop and loss differ.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
import warnings
from collections.abc import Iterable
from typing import Annotated, Any

import torch
import typer

from experiments.context import RESULTS, ResultsOption, own_command
from experiments.data import read_data
from experiments.store import add_rows, columns_of_run
from staypositive.run import Run

TRAININGS: dict[str, dict[str, Any]] = read_data("settings")["pykeen-training"]


def clock() -> Any:
    """Return a callback that notes how long each epoch takes, from its first batch to its last."""
    from pykeen.training import TrainingCallback

    class Clock(TrainingCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []
            self.start: float | None = None

        def pre_batch(self, **_: Any) -> None:
            self.start = time.perf_counter() if self.start is None else self.start

        def post_batch(self, **_: Any) -> None:
            assert self.start is not None
            self.last = time.perf_counter() - self.start

        def post_epoch(self, **_: Any) -> None:
            self.seconds.append(self.last)
            self.start = None

    return Clock()


def train(name: str, dataset: Any, options: dict[str, Any], seed: int) -> tuple[Any, float]:
    """Train once; return PyKEEN's result and the median seconds of an epoch."""
    from pykeen.pipeline import pipeline

    timed = clock()
    training = {"num_epochs": options["epochs"], "batch_size": options["batch"], "use_tqdm": False}
    result = pipeline(
        dataset=dataset,
        model="distmult",
        model_kwargs={"embedding_dim": options["dim"]},
        optimizer_kwargs={"lr": options["lr"]},
        training_kwargs={**training, "callbacks": timed},
        training_loop_kwargs={"automatic_memory_optimization": False},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 128},
        random_seed=seed,
        **TRAININGS[name],
    )
    return result, statistics.median(timed.seconds)


def rows_of(name: str, run: Run, result: Any, seconds: float, seed: int, settings: str) -> Iterable[dict[str, Any]]:
    """Yield figures: PyKEEN's own MRR, NLL before and after Platt scaling, seconds."""
    draws = run.settings.objective.negatives_per_fact * len(run.graph.train) * len(result.losses)
    common = columns_of_run(run, own_command()) | {
        "experiment": "pykeen-side", "model": "distmult", "dim": run.model.dim, "setting": f"{name}; {settings}",
        "seed": seed, "negatives_drawn": draws, "selected_on": "fixed",
    }  # fmt: skip
    ranked = {"split": "test", "side": "both", "filter": "filtered", "ties": "realistic", "unseen": "with"}
    mrr = float(result.get_metric("both.realistic.inverse_harmonic_mean_rank"))
    yield common | ranked | {"metric": "mrr", "value": mrr}
    run.calibrate("platt")
    for way, metrics in run.evaluate("test", ranking=False)["classification"]["all"].items():
        for metric in ("nll", "brier", "auc"):
            place = {"split": "test", "calibration": way, "unseen": "with"}
            yield common | place | {"metric": metric, "value": metrics[metric]}
    yield common | {"split": "train", "metric": "epoch_seconds", "value": seconds, "unit": "s"}


def pykeen_training(
    dataset: Annotated[str, typer.Option(help="One with labelled negatives, for NLL.")] = "codexs",
    dim: int = 50,
    epochs: int = 30,
    batch: int = 256,
    lr: float = 0.01,
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "0,1,2",
    threads: int = 1,
    results: ResultsOption = RESULTS,
) -> None:
    """Train PyKEEN's DistMult by PyKEEN's loops and by ours, from every seed; needs the extra `pykeen`."""
    from pykeen.datasets import dataset_resolver
    from pykeen.version import get_version

    from staypositive.interop.pykeen import from_pykeen

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    data = dataset_resolver.make(dataset)  # afresh: PyKEEN's copies have no triples labelled false
    gc.collect()
    gc.freeze()  # PyKEEN collects garbage after each epoch; what importing left behind need not be looked at
    options = {"dim": dim, "epochs": epochs, "batch": batch, "lr": lr}
    settings = f"Adam {lr:g}, batch {batch}, {epochs} epochs, threads {threads}, PyKEEN {get_version()}"
    for seed in map(int, seeds.split(",")):
        for name in TRAININGS:
            result, seconds = train(name, data, options, seed)
            rows = list(rows_of(name, from_pykeen(result, data), result, seconds, seed, settings))
            said = "  ".join(f"{row['metric']} {row.get('calibration', '')} {row['value']:.4f}" for row in rows)
            print(f"seed {seed}, {name}: {said}", flush=True)
            add_rows(results, rows)
