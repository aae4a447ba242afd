"""What row-wise AdaGrad and rows in bfloat16 do to quality: filtered validation MRR of spDistMult, three seeds.

    python benchmarks/lighter_state.py [--datasets WN18AM,FB15k-237AM] [--graphs FOLDER] --out rows.json

With `--graphs`, datasets are read from encoded files there. `--record rows.json` puts written rows into the index.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from staypositive.experiments import write_rows
from staypositive.experiments.many import Schedule, train_many
from staypositive.experiments.table2 import Lab, describe
from staypositive.graph import load_graph
from staypositive.run.fitting import resolve_device
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import make_settings

INDEX = Path(__file__).resolve().parents[1] / "results" / "index.csv"
STATES = {
    "adagrad, float32": {},
    "adagrad-rowwise, float32": {"optimiser": "adagrad-rowwise"},
    "adagrad, bfloat16": {"precision": "bfloat16"},
    "adagrad-rowwise, bfloat16": {"optimiser": "adagrad-rowwise", "precision": "bfloat16"},
}


def main() -> None:
    """Train every state from every seed, side by side where the device can."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="WN18AM,FB15k-237AM")
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--record", type=Path)
    chosen = parser.parse_args()
    if chosen.record:
        print(write_rows(INDEX, json.loads(chosen.record.read_text("utf-8"))), "rows")
        return
    rows = []
    lab = Lab(Path(), resolve_device(chosen.device), "python benchmarks/lighter_state.py", chosen.commit)
    for name in chosen.datasets.split(","):
        graph = load_graph(chosen.graphs / f"{name}.npz" if chosen.graphs else name)
        batch = -(-len(graph.train.facts) // 100)
        common = {"model": "distmult", "dim": 200, "learning_rate": 0.1, "prior_score": -1.0, "batch_size": batch}
        settings = [
            make_settings(**common, **state, seed=seed) for state in STATES.values() for seed in range(chosen.seeds)
        ]
        outcomes = train_many(graph, settings, Schedule(chosen.epochs, 50), validation_measure(graph), lab.device)
        states = [state for state in STATES for _ in range(chosen.seeds)]
        for state, outcome in zip(states, outcomes, strict=True):
            rows.append(
                {
                    "experiment": "lighter-state", "dataset": graph.name, "model": "distmult",
                    "objective": "stay-positive", "dim": 200, "setting": f"{state}; {describe(outcome.settings)}",
                    "split": "valid", "side": "both", "filter": "filtered", "ties": "realistic", "metric": "mrr",
                    "value": outcome.best_value, "seed": outcome.settings.seed, "negatives_drawn": 0,
                    "selected_on": "fixed", "data_sha256": graph.fingerprint, "command": lab.command, **lab.origin(),
                }
            )  # fmt: skip
            print(name, state, outcome.settings.seed, outcome.best_epoch, round(outcome.best_value, 4), flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps(rows, indent=1), "utf-8")


if __name__ == "__main__":
    main()
