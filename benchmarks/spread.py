"""What `gram_update_interval` costs and saves in training: validation MRR, and CPU seconds of the best epoch.

python benchmarks/spread.py CoDEx-S --dim 64 --epochs 20 --rows rows.csv
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import torch

from staypositive.experiments.index import write_rows
from staypositive.experiments.many import Outcome
from staypositive.experiments.paper import Cell
from staypositive.experiments.table2 import Lab, about_row
from staypositive.graph import load_graph
from staypositive.run.fitting import new_engine, new_model, training_facts
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import make_settings

CPU = torch.device("cpu")


def main() -> None:
    """Train with each number of steps from each seed; print, and write rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--every", default="1,4,16,64", help="steps between spreads, separated by commas")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--w0", type=float, default=0.01)
    parser.add_argument("--rows", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    graph = load_graph(chosen.dataset)
    measure = validation_measure(graph, None, "mrr")
    common = {"model": "complex", "objective": "second-moment", "dim": chosen.dim, "batch_size": chosen.batch}
    command = f"python benchmarks/spread.py {graph.name} --dim {chosen.dim} --batch {chosen.batch}"
    lab = Lab(Path(), CPU, f"{command} --epochs {chosen.epochs} --seeds {chosen.seeds}", experiment="spread")
    for every, seed in itertools.product(map(int, chosen.every.split(",")), range(chosen.seeds)):
        settings = make_settings(**common, unobserved_weight=chosen.w0, gram_update_interval=every, seed=seed)
        model = new_model(graph, settings)
        engine = new_engine(model, settings, training_facts(graph, model, CPU))
        times = []
        for _ in range(chosen.epochs):
            start = time.process_time()
            engine.run_epoch()
            times.append(time.process_time() - start)
        mrr, seconds = measure(model.eval()), min(times)  # a busy machine makes epochs longer, never shorter
        print(
            f"{graph.name}, gram_update_interval {every}, seed {seed}: MRR {mrr:.4f}, {seconds:.3f} s an epoch",
            flush=True,
        )
        if chosen.rows:
            cell, outcome = Cell("", "complex", "second-moment", graph.name), Outcome(settings, model)
            about = about_row(cell, outcome, graph, lab, "fixed") | {"split": "valid"}
            about |= {"setting": f"gram_update_interval {every}, {chosen.epochs} epochs; {about['setting']}"}
            ranked = {"filter": "filtered", "ties": "realistic", "side": "both"}
            write_rows(
                chosen.rows,
                [
                    about | ranked | {"metric": "mrr", "value": mrr},
                    about | {"metric": "epoch_cpu_seconds", "value": seconds, "unit": "s"},
                ],
            )


if __name__ == "__main__":
    main()
