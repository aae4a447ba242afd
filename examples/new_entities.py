"""How good are folded-in entities? Hold some out of training altogether, fold them in from half of their facts.

The other half is ranked (filtered, both sides), beside the same facts in a model that was trained with the first
half, and beside chance. Run it with `python examples/new_entities.py CoDEx-S`.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import pandas as pd

import staypositive as sp
from staypositive.cli.console import Console
from staypositive.evaluation import rank_facts, ranking_metrics
from staypositive.models import Scorer
from staypositive.run.provenance import code_commit, device_name

Fact = tuple[str, str, str]


class HeldOut(NamedTuple):
    """Facts by label: those without the held-out entities, and the two halves of those with exactly one."""

    rest: list[Fact]
    given: list[Fact]
    asked: list[Fact]


def hold_out(graph: sp.KnowledgeGraph, share: float, least: int = 4, seed: int = 0) -> HeldOut:
    """Draw entities of at least `least` facts; each one's facts with other entities are halved at random."""
    draw = np.random.default_rng(seed)
    facts = np.unique(graph.facts(), axis=0)
    counts = np.bincount(facts[:, [0, 2]].ravel(), minlength=len(graph.entities))
    new = np.zeros(len(counts), dtype=bool)
    new[draw.choice(np.flatnonzero(counts >= least), round(share * len(counts)), replace=False)] = True
    ends = new[facts[:, [0, 2]]].sum(1)
    own = facts[ends == 1]
    entity = np.where(new[own[:, 0]], own[:, 0], own[:, 2])
    order = draw.permutation(len(own))
    order = order[np.argsort(entity[order], kind="stable")]
    _, starts, place = np.unique(entity[order], return_index=True, return_inverse=True)
    halves = (np.arange(len(own)) - starts[place]) % 2 == 1
    rest = facts[ends == 0]
    rest = rest[draw.permutation(len(rest))]
    return HeldOut(*(labels(graph, part) for part in (rest, own[order[~halves]], own[order[halves]])))


def labels(graph: sp.KnowledgeGraph, triples: np.ndarray) -> list[Fact]:
    """Return triples by label."""
    return [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in triples.tolist()]


def graph_of(name: str, facts: list[Fact]) -> sp.KnowledgeGraph:
    """Return a graph of training facts alone."""
    return sp.load_graph({"train": facts}, name=name)


def measure(run: sp.Run, held: HeldOut) -> dict[str, float]:
    """Rank the asked facts that the run has labels for, filtered by all facts there are."""
    entities, relations = run.graph.entities, run.graph.relations

    def ids(facts: list[Fact]) -> np.ndarray:
        known = [(h, r, t) for h, r, t in facts if h in entities and r in relations and t in entities]
        heads, names, tails = zip(*known, strict=True)
        return np.column_stack([entities.ids(heads), relations.ids(names), entities.ids(tails)])

    ranks = rank_facts(Scorer(run.model).asked(), ids(held.asked), ids([*held.rest, *held.given, *held.asked]))
    chance = float(np.mean([(1 / np.arange(1, n + 1)).mean() for n in ranks.candidates.tolist()]))
    return ranking_metrics(ranks) | {"queries": float(len(ranks)), "chance": chance}


def main() -> None:
    """Train without the held-out entities, fold them in, and train with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="CoDEx-S")
    parser.add_argument("--share", type=float, default=0.05, help="share of entities to hold out")
    parser.add_argument("--objective", default="stay-positive", choices=sorted(sp.OBJECTIVES))
    parser.add_argument("--model", default="simple", choices=sorted(sp.MODELS))
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--ridge", type=float, nargs="*", default=[None])
    parser.add_argument("--rows", help="write the figures to this CSV, for `python -m experiments results add`")
    chosen = vars(parser.parse_args())
    data, share, ridges, out = (chosen.pop(name) for name in ("data", "share", "ridge", "rows"))
    console = Console(warnings=False)
    held = hold_out(sp.load_graph(data), share)
    console.say(
        f"{len(held.rest):,} facts to train on, {len(held.given):,} to fold in from, {len(held.asked):,} asked"
    )
    small = sp.fit(graph_of("without", held.rest), **chosen)
    rows = {}
    for ridge in ridges:
        name = "folded in" if ridge is None else f"folded in, ridge {ridge:g}"
        rows[name] = measure(small.with_entities(held.given, ridge=ridge), held)
    rows["trained with them"] = measure(sp.fit(graph_of("with", [*held.rest, *held.given]), **chosen), held)
    header = ["mrr", "hits@1", "hits@10", "amri", "queries", "chance"]
    console.table(
        "Held-out facts of held-out entities; chance: MRR of a random order",
        ["entities", *header],
        [[name, *(row[key] for key in header)] for name, row in rows.items()],
    )
    if out:
        command = f"python examples/new_entities.py {data} " + " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in chosen.items()
        )
        common = {
            "experiment": "new-entities", "dataset": data, "model": chosen["model"], "objective": chosen["objective"],
            "dim": chosen["dim"], "seed": 0, "split": "held-out entities", "side": "both", "filter": "filtered",
            "ties": "realistic", "negatives_drawn": 0, "selected_on": "fixed", "version": sp.__version__,
            "device": device_name(small.model.entities.device), "commit": code_commit(), "command": command,
        }  # fmt: skip
        figures = [
            common | {"setting": f"{name}; epochs {chosen['epochs']}", "metric": metric, "value": row[metric]}
            for name, row in rows.items()
            for metric in ("mrr", "hits@1", "hits@10", "chance")
        ]
        pd.DataFrame(figures).to_csv(out, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
