"""Second-moment settings side by side: validation MRR of each, and, with `--keep`, ranks on test for the best.

    python benchmarks/second_moment.py FB15k-237AM '{"dim": 512, "dropout": 0.5}' '{"dim": 256}' --epochs 60
    python benchmarks/second_moment.py WN18AM @settings.jsonl --out found.jsonl --seeds 3 --keep results

Each argument after the dataset is a JSON object of settings of `fit`, or `@file` with one a line. With `--graphs`,
datasets are read from encoded files there. Only validation is looked at, unless `--keep` puts the best to test.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from staypositive.experiments.kept import keep_result
from staypositive.experiments.many import Schedule, train_many, validation_measure
from staypositive.experiments.paper import Cell
from staypositive.experiments.table2 import Lab, about_row
from staypositive.graph import load_graph
from staypositive.run.fitting import resolve_device
from staypositive.run.settings import make_settings


def main() -> None:
    """Train every setting from every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--model", default="complex")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--patience", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--valid-facts", type=int, default=3000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="folder of results to keep the best setting's test ranks in")
    chosen = parser.parse_args()
    texts = [
        line
        for text in chosen.settings
        for line in (Path(text[1:]).read_text().splitlines() if text.startswith("@") else [text])
        if line.strip()
    ]
    graph = load_graph(chosen.graphs / f"{chosen.dataset}.npz" if chosen.graphs else chosen.dataset)
    common = {"model": chosen.model, "objective": "second-moment", "batch_size": 1000}
    settings = [
        make_settings(**{**common, **json.loads(text), "seed": seed})
        for text in texts
        for seed in range(chosen.seeds)
    ]
    lab = Lab(
        chosen.keep or Path(), resolve_device(chosen.device), f"python benchmarks/second_moment.py {chosen.dataset}",
        chosen.commit, "second-moment",
    )  # fmt: skip
    some, whole = (validation_measure(graph, count, "mrr") for count in (chosen.valid_facts, None))
    found = []
    for place, one in enumerate(settings):
        schedule = Schedule(chosen.epochs, chosen.every, chosen.patience)
        (outcome,) = train_many(graph, [one], schedule, some, lab.device)
        value = whole(outcome.model)
        found.append((value, outcome))
        said = {
            "setting": json.loads(texts[place // chosen.seeds]), "seed": one.seed, "valid_mrr": round(value, 4),
            "best_epoch": outcome.best_epoch, "seconds": round(outcome.seconds, 2),
            "curve": [[epoch, round(at, 4)] for epoch, at in outcome.curve],
        }  # fmt: skip
        print(json.dumps(said), flush=True)
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(said) + "\n")
        if not chosen.keep:
            found[-1] = (value, None)
            torch.cuda.empty_cache() if lab.device.type == "cuda" else None
    if chosen.keep:
        means = [
            sum(value for value, _ in found[start : start + chosen.seeds]) / chosen.seeds
            for start in range(0, len(found), chosen.seeds)
        ]
        best = max(range(len(means)), key=means.__getitem__) * chosen.seeds
        cell = Cell("second-moment", chosen.model, "second-moment", graph.name)
        for _, outcome in found[best : best + chosen.seeds]:
            kept = keep_result(graph, outcome.model, about_row(cell, outcome, graph, lab))
            kept.write(lab.path("kept", f"{graph.name}-{chosen.model}-{outcome.settings.seed}", ".npz"))


if __name__ == "__main__":
    main()
