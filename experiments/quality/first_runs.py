"""The paper's objective on its four datasets, for 50 epochs on the CPU: counts, speed and metrics.

Not a reproduction of the paper, which trains for thousands of epochs: a first look that anyone can repeat.
"""

from __future__ import annotations

from typing import Annotated

import typer

import staypositive as sp
from experiments.context import RESULTS, ResultsOption, own_command
from experiments.store import add_rows, rows_of_run


def first_runs(
    model: str = "distmult",
    dim: int = 200,
    epochs: int = 50,
    batch_size: int = 1415,
    dropout: float = 0.4,
    datasets: Annotated[str, typer.Option(help="Separated by commas.")] = "WN18AM,FB15k-237AM,WN11,FB13",
    results: ResultsOption = RESULTS,
) -> None:
    """Train on the paper's datasets for 50 epochs on the CPU, evaluate, and add every metric."""
    for name in datasets.split(","):
        graph = sp.load_graph(name)
        run = sp.fit(
            graph, model=model, dim=dim, epochs=epochs, batch_size=batch_size, dropout=dropout, validate_every=10,
            device="cpu", progress=True,
        )  # fmt: skip
        if graph.valid.has_negatives:
            run.calibrate("platt")
        run.evaluate("test", ranking=not graph.test.has_negatives)
        setting = f"epochs {epochs}, batch {batch_size}, dropout {dropout}, λ 0.1, ψ 0, lr 0.1"
        rows = rows_of_run(run, "test", own_command(), experiment="first-runs", setting=setting, selected_on="valid")
        add_rows(results, rows)
        shown = {row["metric"]: row["value"] for row in rows if row["ties"] in ("", "realistic")}
        print(name, run, shown, flush=True)
