"""The same validation curve with both engines: WN18AM, three seeds, on the CPU. The rows go into the index.

python benchmarks/engines_agree.py [--epochs 60] [--seeds 3]
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import staypositive as sp
from staypositive.experiments import write_rows

INDEX = Path(__file__).resolve().parents[1] / "results" / "index.csv"


def main() -> None:
    """Train with each engine from each seed and record the validation MRR of every check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--index", type=Path, default=INDEX)
    chosen = parser.parse_args()
    command = shlex.join(["python", "benchmarks/engines_agree.py", *sys.argv[1:]])
    graph = sp.load_graph("WN18AM")
    for seed in range(chosen.seeds):
        for engine in ("fused", "reference"):
            run = sp.fit(
                graph, model="distmult", dim=200, dropout=0.4, batch_size=256, learning_rate=0.5,
                epochs=chosen.epochs, validate_every=20, engine=engine, seed=seed, device="cpu",
            )  # fmt: skip
            rows = [
                {
                    "experiment": "engines-agree", "dataset": graph.name, "model": "distmult",
                    "objective": "stay-positive", "dim": 200, "setting": f"engine {engine}, epoch {record.epoch}",
                    "split": "valid", "side": "both", "filter": "filtered", "ties": "realistic", "metric": "mrr",
                    "value": record.validation["mrr"], "seed": seed, "negatives_drawn": 0, "selected_on": "fixed",
                    "device": run.provenance["device"], "version": sp.__version__,
                    "commit": run.provenance["commit"], "data_sha256": graph.fingerprint, "command": command,
                }
                for record in run.history
                if record.validation
            ]  # fmt: skip
            write_rows(chosen.index, rows)
            print(engine, seed, [round(row["value"], 5) for row in rows], flush=True)


if __name__ == "__main__":
    main()
