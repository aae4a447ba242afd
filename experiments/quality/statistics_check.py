"""Score statistics against enumeration: how far both estimates of the number of likely triples are from the count."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

import staypositive as sp
from experiments.context import RESULTS, ResultsOption, own_command
from experiments.store import add_rows, columns_of_run
from staypositive.inference.statistics import take_census


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


def statistics_check(
    dataset: str, dim: int = 100, epochs: int = 100, thresholds: str = "0.5,0.9", results: ResultsOption = RESULTS
) -> None:
    """Train spDistMult, estimate how many triples reach a probability, and count them by enumeration.

    Compared relation by relation and in total. Seconds are those of the moments and of the enumeration.
    """
    graph = sp.load_graph(dataset)
    run = sp.fit(
        graph, model="distmult", dim=dim, epochs=epochs, batch_size=2722, learning_rate=0.1, prior_score=-1.0,
        penalty_weight=0.001,
    )  # fmt: skip
    common = columns_of_run(run, own_command()) | {
        "experiment": "census", "split": "all triples", "selected_on": "fixed",
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for threshold in map(float, thresholds.split(",")):
        begun = time.perf_counter()
        take_census(run.predictor, threshold=threshold, samples=1)
        moments = time.perf_counter() - begun
        found = errors(take_census(run.predictor, threshold=threshold, exact=True))
        found["moment_seconds"] = moments
        found["seconds_with_enumeration"] = time.perf_counter() - begun
        print(threshold, found, flush=True)
        rows += [
            common | {"setting": f"probability ≥ {threshold}", "metric": m, "value": v} for m, v in found.items()
        ]
    add_rows(results, rows)
