"""The census against enumeration: how far both estimates of the number of likely triples are from the count.

    python benchmarks/census.py FB15k-237AM --index results/index.csv

Trains spDistMult for some epochs, takes the census of all |E|²|R| triples at several thresholds with `exact`, and
compares, relation by relation and in all. Seconds are those of the moments alone and of the enumeration.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

import staypositive as sp
from staypositive.experiments import write_rows
from staypositive.inference.statistics import score_statistics
from staypositive.run.provenance import code_commit, device_name


def errors(table: pd.DataFrame) -> dict[str, float]:
    """Return totals, the share of relations whose interval holds the count, and median relative errors."""
    each, total = table.iloc[:-1], table.iloc[-1]
    held = (each["low"] <= each["exact"]) & (each["exact"] <= each["high"])
    some = each[each["exact"] >= 1000]  # a relative error says little of a handful
    found = {name: float(total[name]) for name in ("exact", "sampled", "low", "high", "normal")}
    found |= {"intervals_that_hold": float(held.mean()), "relations_compared": float(len(some))}
    for name in ("sampled", "normal") if len(some) else ():
        found[f"{name}_median_error"] = float(np.median(np.abs(some[name] / some["exact"] - 1)))
    return found


def main() -> None:
    """Train, count, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.5, 0.9])
    parser.add_argument("--index")
    chosen = parser.parse_args()
    graph = sp.load_graph(chosen.dataset)
    run = sp.fit(
        graph, model="distmult", dim=chosen.dim, epochs=chosen.epochs, batch_size=2722, learning_rate=0.1,
        prior_score=-1.0, penalty_weight=0.001,
    )  # fmt: skip
    common = {
        "experiment": "census", "dataset": graph.name, "model": "distmult", "objective": "stay-positive",
        "dim": chosen.dim, "seed": 0, "split": "all triples", "negatives_drawn": 0, "selected_on": "fixed",
        "device": device_name(run.model.entities.device), "version": sp.__version__, "commit": code_commit(),
        "data_sha256": graph.fingerprint,
        "command": f"python benchmarks/census.py {chosen.dataset} --dim {chosen.dim} --epochs {chosen.epochs}",
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for threshold in chosen.thresholds:
        begun = time.perf_counter()
        score_statistics(run.predictor, threshold=threshold, samples=1)
        moments = time.perf_counter() - begun
        found = errors(score_statistics(run.predictor, threshold=threshold, exact=True))
        found["moment_seconds"] = moments
        found["seconds_with_enumeration"] = time.perf_counter() - begun
        print(threshold, found, flush=True)
        rows += [
            common | {"setting": f"probability ≥ {threshold}", "metric": m, "value": v} for m, v in found.items()
        ]
    if chosen.index:
        write_rows(chosen.index, rows)


if __name__ == "__main__":
    main()
