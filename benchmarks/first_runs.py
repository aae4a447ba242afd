"""The paper's objective on its four datasets, for 50 epochs on the CPU: counts, speed and metrics, into the index.

    python benchmarks/first_runs.py [--model distmult] [--epochs 50] [--datasets WN18AM ...]

Not a reproduction of the paper, which trains for thousands of epochs: a first look that anyone can repeat.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import staypositive as sp
from staypositive.experiments import rows_of_run, write_rows

INDEX = Path(__file__).resolve().parents[1] / "results" / "index.csv"
DATASETS = ("WN18AM", "FB15k-237AM", "WN11", "FB13")


def main() -> None:
    """Train, evaluate and record each dataset in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="distmult")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=1415)
    parser.add_argument("--dropout", type=float, default=0.4)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--index", type=Path, default=INDEX)
    chosen = parser.parse_args()
    command = shlex.join(["python", "benchmarks/first_runs.py", *sys.argv[1:]])
    for name in chosen.datasets:
        graph = sp.load_graph(name)
        run = sp.fit(
            graph,
            model=chosen.model,
            dim=chosen.dim,
            epochs=chosen.epochs,
            batch_size=chosen.batch_size,
            dropout=chosen.dropout,
            validate_every=10,
            device="cpu",
            progress=True,
        )
        if graph.valid.has_negatives:
            run.calibrate("platt")
        run.evaluate("test", ranking=not graph.test.has_negatives)
        setting = f"epochs {chosen.epochs}, batch {chosen.batch_size}, dropout {chosen.dropout}, λ 0.1, ψ 0, lr 0.1"
        rows = rows_of_run(run, "test", command, experiment="first-runs", setting=setting, selected_on="valid")
        write_rows(chosen.index, rows)
        print(
            name, run, {row["metric"]: row["value"] for row in rows if row["ties"] in ("", "realistic")}, flush=True
        )


if __name__ == "__main__":
    main()
