"""What a user gets who sets nothing, beside the paper's objective with its defaults: MRR of the test, and the time.

python benchmarks/defaults.py geo CoDEx-S WN18AM FB15k-237AM --rows rows.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import staypositive as sp
from staypositive.experiments.index import write_rows
from staypositive.experiments.table2 import describe


def main() -> None:
    """Train both ways on each graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--graphs", type=Path, help="folder of encoded graphs to read in place of named ones")
    parser.add_argument("--rows", type=Path, required=True)
    chosen = parser.parse_args()
    for name in chosen.datasets:
        graph = sp.load_graph(chosen.graphs / f"{name}.npz" if chosen.graphs else name)
        for way, given in (("nothing set", {}), ("model simple", {"model": "simple"})):
            run = sp.fit(graph, **given)
            metrics = run.evaluate("test")["ranking"]["filtered"]["realistic"]["both"]
            seconds = sum(record.seconds for record in run.history)
            print(name, way, round(metrics["mrr"], 4), f"{seconds:.1f} s", len(run.history), "epochs", flush=True)
            about = {
                "experiment": "defaults", "dataset": name, "model": run.settings.model, "dim": run.settings.dim,
                "objective": run.settings.objective.name, "setting": f"{way}; {describe(run.settings)}", "seed": 0,
                "negatives_drawn": 0, "selected_on": "valid", "device": run.provenance["device"],
                "version": run.provenance["version"], "commit": run.provenance["commit"],
                "data_sha256": graph.fingerprint, "command": f"python benchmarks/defaults.py {name}",
            }  # fmt: skip
            place = {"split": "test", "filter": "filtered", "ties": "realistic", "side": "both", "unseen": "with"}
            rows = [
                about | place | {"metric": "mrr", "value": metrics["mrr"]},
                about | {"split": "train", "metric": "training_seconds", "value": seconds, "unit": "s"},
                about | {"split": "train", "metric": "epochs", "value": len(run.history)},
            ]
            write_rows(chosen.rows, rows)


if __name__ == "__main__":
    main()
