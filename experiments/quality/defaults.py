"""What a user gets who sets nothing, beside the paper's objective with its defaults: test MRR and time."""

from __future__ import annotations

import staypositive as sp
from experiments.context import RESULTS, GraphsOption, ResultsOption, load, own_command
from experiments.paper.table2 import describe
from experiments.store import add_rows, columns_of_run


def defaults(datasets: list[str], results: ResultsOption = RESULTS, graphs: GraphsOption = None) -> None:
    """Train with nothing set, and with `model simple`: test MRR and the time.

    Example: python -m experiments defaults geo CoDEx-S WN18AM FB15k-237AM
    """
    for name in datasets:
        graph = load(name, graphs)
        for way, model in (("nothing set", None), ("model simple", "simple")):
            run = sp.fit(graph, model=model) if model else sp.fit(graph)
            metrics = run.evaluate("test")["ranking"]["filtered"]["realistic"]["both"]
            seconds = sum(record.seconds for record in run.history)
            print(name, way, round(metrics["mrr"], 4), f"{seconds:.1f} s", len(run.history), "epochs", flush=True)
            about = columns_of_run(run, own_command()) | {
                "experiment": "defaults", "dataset": name, "setting": f"{way}; {describe(run.settings)}",
                "selected_on": "valid",
            }  # fmt: skip
            place = {"split": "test", "filter": "filtered", "ties": "realistic", "side": "both", "unseen": "with"}
            rows = [
                about | place | {"metric": "mrr", "value": metrics["mrr"]},
                about | {"split": "train", "metric": "training_seconds", "value": seconds, "unit": "s"},
                about | {"split": "train", "metric": "epochs", "value": len(run.history)},
            ]
            add_rows(results, rows)
