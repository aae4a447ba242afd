"""A few minutes with staypositive: train on the embedded graph of the world, and judge the answers by eye.

Run it with `make demo`, or `python examples/demo.py`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import staypositive as sp
from staypositive.cli.console import Console, evaluation_tables

QUESTIONS = (
    ("Germany", "borders", 12),
    ("Slovenia", "has_currency", 3),
    ("Ecuador", "in_continent", 3),
    ("Colombia", "speaks", 3),
)
FOLDER = Path("runs") / "demo"


def where(graph: sp.KnowledgeGraph, head: str, relation: str, tail: str) -> str:
    """Say which split states a triple: train (seen), valid or test (held out), or none."""
    triple = [graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)]
    for name, said in (("train", "seen in training"), ("valid", "held out, true"), ("test", "held out, true")):
        if (graph.split(name).facts == triple).all(1).any():
            return said
    return ""


def main() -> None:
    """Load, train, measure, calibrate, measure again, ask."""
    logging.basicConfig(level=logging.WARNING)
    console = Console()
    graph = sp.load_graph("geo")
    console.say(f"geo: {len(graph.entities):,} places, languages and currencies; {len(graph.train):,} facts.")
    run = sp.fit(graph, model="simple", dim=100, epochs=300, learning_rate=0.5, validate_every=25, progress=True)
    seconds = sum(record.seconds for record in run.history)
    console.say(f"trained {len(run.history)} epochs in {seconds:.0f} s without drawing a negative")
    run.calibrate("platt")
    report = run.evaluate("test")
    evaluation_tables(console, "test", report)
    for head, relation, top in QUESTIONS:
        answers = run.predict(head=head, relation=relation, top=top, candidates="range")
        rows = [
            [tail, probability, where(graph, head, relation, tail)]
            for tail, probability in zip(answers["tail"], answers["probability"].tolist(), strict=True)
        ]
        console.table(f"({head}, {relation}, ?)", ["answer", "probability", "in the graph"], rows)
    run.save(FOLDER)
    for line in (
        f"The run is in {FOLDER}. Try next (after `source .venv/bin/activate`):",
        f"  staypositive predict {FOLDER} --head Japan --relation borders --candidates range",
        f"  staypositive predict {FOLDER} --relation speaks --tail French --exclude-known --candidates range",
        f"  staypositive predict {FOLDER} --similar Norway",
        f"  staypositive evaluate {FOLDER} --per-relation",
        "  staypositive train your-triples.tsv",
    ):
        console.say(line)  # one line each: line ends within one are spelt out, as anything a label could bring


if __name__ == "__main__":
    main()
