"""The same validation curve with both engines: WN18AM, three seeds, on the CPU."""

from __future__ import annotations

import staypositive as sp
from experiments.context import RESULTS, ResultsOption, own_command
from experiments.store import add_rows, columns_of_run


def engines_agree(epochs: int = 60, seeds: int = 3, results: ResultsOption = RESULTS) -> None:
    """Train with each engine from each seed: the validation MRR of every check should agree."""
    graph = sp.load_graph("WN18AM")
    place = {"split": "valid", "side": "both", "filter": "filtered", "ties": "realistic", "metric": "mrr"}
    for seed in range(seeds):
        for engine in ("fused", "reference"):
            run = sp.fit(
                graph, model="distmult", dim=200, dropout=0.4, batch_size=256, learning_rate=0.5,
                epochs=epochs, validate_every=20, engine=engine, seed=seed, device="cpu",
            )  # fmt: skip
            about = columns_of_run(run, own_command()) | {"experiment": "engines-agree", "selected_on": "fixed"}
            rows = [
                about | place | {"setting": f"engine {engine}, epoch {one.epoch}", "value": one.validation["mrr"]}
                for one in run.history
                if one.validation
            ]
            add_rows(results, rows)
            print(engine, seed, [round(row["value"], 5) for row in rows], flush=True)
