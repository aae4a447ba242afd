"""Two minutes with staypositive: train on the embedded graph of the world, and judge the answers by eye.

Run it with `make demo`, or `python examples/demo.py`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import staypositive as sp
from staypositive.cli.console import Console, evaluation_tables

QUESTIONS = (
    ("Germany", "borders", 11),
    ("Slovenia", "has_currency", 3),
    ("Ecuador", "in_continent", 3),
    ("Colombia", "speaks", 4),
)
WHAT_IF = 0.95
FOLDER = Path("runs") / "demo"


def where(graph: sp.KnowledgeGraph, head: str, relation: str, tail: str) -> str:
    """Say where a triple is known from: train (seen), valid or test (held out from training), or nowhere."""
    triple = [graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)]
    for name, said in (("train", "yes"), ("valid", "yes, held out"), ("test", "yes, held out")):
        if (graph.split(name).facts == triple).all(1).any():
            return said
    return "no"


def ask(console: Console, run: sp.Run, head: str, relation: str, top: int) -> None:
    """Show the best answers: which are known, and how likely the others are, at two shares of missing facts."""
    options = {"head": head, "relation": relation, "top": top, "exclude_self": True}
    answers, likelier = run.predict(**options), run.predict(**options, completeness=WHAT_IF)
    rows = [
        [tail, where(run.graph, head, relation, tail), *stated]
        for tail, *stated in zip(
            answers["tail"], answers["probability"].tolist(), likelier["probability"].tolist(), strict=True
        )
    ]
    share = f"{answers.attrs['completeness']:.2%}"
    header = ["answer", "in the graph", f"probability at {share} complete", f"at {WHAT_IF:.0%} complete"]
    console.table(f"({head}, {relation}, ?)", header, rows)


def main() -> None:
    """Load, train, fit the probabilities, measure, ask."""
    logging.basicConfig(level=logging.WARNING)
    console = Console()
    graph = sp.load_graph("geo")
    console.say(f"geo: {len(graph.entities):,} places, languages and currencies; {len(graph.train):,} facts")
    run = sp.fit(graph, progress=True)
    seconds = sum(record.seconds for record in run.history)
    console.say(f"trained {len(run.history)} epochs in {seconds:.0f} s, without drawing a negative")
    console.say("fitting probabilities to the validation facts, then again with the test facts hidden ...")
    found = run.calibrate()
    evaluation_tables(console, "test", run.evaluate("test"))
    console.say(
        f"geo is nearly complete: {found['completeness']:.2%} as far as its facts tell, and little else is likely.",
        f"At {WHAT_IF:.0%}: what if one true fact in twenty were missing?",
    )
    for question in QUESTIONS:
        ask(console, run, *question)
    run.save(FOLDER)
    for line in (
        f"The run is in {FOLDER}. Try next (after `source .venv/bin/activate`):",
        f"  staypositive predict {FOLDER} --head Japan --relation borders",
        f"  staypositive predict {FOLDER} --relation speaks --tail French --exclude-known --completeness 0.95",
        f"  staypositive discover {FOLDER} --completeness 0.95 --top 20",
        f"  staypositive evaluate {FOLDER} --per-relation",
        "  staypositive train your-triples.tsv",
    ):
        console.say(line)  # one line each: line ends within one are spelt out, as anything a label could bring


if __name__ == "__main__":
    main()
