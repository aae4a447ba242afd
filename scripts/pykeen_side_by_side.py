"""PyKEEN's DistMult on one dataset, trained by PyKEEN's own loops and by ours: ranks, probabilities, seconds.

python scripts/pykeen_side_by_side.py --index results/index.csv      # needs the extra `pykeen`

Model, optimiser, batch size, number of epochs and threads are the same in all; only loop and loss differ.
"""

from __future__ import annotations

import argparse
import gc
import logging
import shlex
import statistics
import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from pykeen.datasets import dataset_resolver
from pykeen.pipeline import PipelineResult, pipeline
from pykeen.training import TrainingCallback
from pykeen.version import get_version

from staypositive.experiments.index import Row, write_rows
from staypositive.interop.pykeen import from_pykeen
from staypositive.run import Run

TRAININGS: dict[str, dict[str, Any]] = {
    "PyKEEN, sLCWA, margin ranking (its default)": {},
    "PyKEEN, sLCWA, softplus": {"loss": "softplus"},
    "stay-positive": {"training_loop": "stay-positive"},
    "second-moment": {"training_loop": "second-moment"},
}


class Clock(TrainingCallback):
    """Notes how long each epoch takes, from batch to batch: without what PyKEEN does in between."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.start: float | None = None

    def pre_batch(self, **_: Any) -> None:
        """An epoch begins with its first batch."""
        self.start = time.perf_counter() if self.start is None else self.start

    def post_batch(self, **_: Any) -> None:
        """The last one to be noted is the epoch's end."""
        assert self.start is not None
        self.last = time.perf_counter() - self.start

    def post_epoch(self, **_: Any) -> None:
        """The epoch is over."""
        self.seconds.append(self.last)
        self.start = None


def train(name: str, dataset: Any, options: argparse.Namespace, seed: int) -> tuple[PipelineResult, float]:
    """Train once; return PyKEEN's result and the median seconds of an epoch."""
    clock = Clock()
    result = pipeline(
        dataset=dataset,
        model="distmult",
        model_kwargs={"embedding_dim": options.dim},
        optimizer_kwargs={"lr": options.lr},
        training_kwargs={
            "num_epochs": options.epochs,
            "batch_size": options.batch,
            "use_tqdm": False,
            "callbacks": clock,
        },
        training_loop_kwargs={"automatic_memory_optimization": False},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 128},
        random_seed=seed,
        **TRAININGS[name],
    )
    return result, statistics.median(clock.seconds)


def rows_of(name: str, run: Run, result: PipelineResult, seconds: float, seed: int, settings: str) -> Iterable[Row]:
    """Return the rows of the index: PyKEEN's own MRR, NLL before and after Platt scaling, seconds."""
    draws = run.settings.objective.negatives_per_fact * len(run.graph.train) * len(result.losses)
    common = {
        "experiment": "pykeen-side", "dataset": run.graph.name, "model": "distmult",
        "objective": run.settings.objective.name, "dim": run.model.dim, "setting": f"{name}; {settings}",
        "seed": seed, "negatives_drawn": draws, "selected_on": "fixed", "device": run.provenance["device"],
        "version": run.provenance["version"], "commit": run.provenance["commit"],
        "data_sha256": run.provenance["graph_sha256"], "command": shlex.join(["python", *sys.argv]),
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


def main() -> None:
    """Train in every way, for every seed; print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="codexs", help="one with labelled negatives, for NLL")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--index", default="")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    dataset = dataset_resolver.make(options.dataset)  # afresh: PyKEEN's copies have no triples labelled false
    gc.collect()
    gc.freeze()  # PyKEEN collects garbage after each epoch; what importing left behind need not be looked at
    settings = (
        f"Adam {options.lr:g}, batch {options.batch}, {options.epochs} epochs, threads {options.threads}, "
        f"PyKEEN {get_version()}"
    )
    for seed in map(int, options.seeds.split(",")):
        for name in TRAININGS:
            result, seconds = train(name, dataset, options, seed)
            rows = list(rows_of(name, from_pykeen(result, dataset), result, seconds, seed, settings))
            said = "  ".join(
                f"{row['metric']} {row.get('calibration', '')} {float(row['value']):.4f}" for row in rows
            )
            print(f"seed {seed}, {name}: {said}", flush=True)
            if options.index:
                write_rows(options.index, rows)


if __name__ == "__main__":
    main()
