"""What two processes of the tests of the plan send in an epoch, by objective, as JSON.

Run by torchrun: `sending.py FILE`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.graph import KnowledgeGraph, Split, Vocabulary
from staypositive.run import make_settings, training_task
from staypositive.sharded import World, open_world, shard_model
from staypositive.training import build_engine

ENTITIES, RELATIONS, FACTS, BATCH = 2000, 50, 4096, 1024
CASES: dict[str, dict[str, Any]] = {
    "stay-positive": {},
    "all-scope": {"objective": "stay-positive", "scope": "all"},
    "second-moment": {"objective": "second-moment"},
    "negative-sampling": {"objective": "negative-sampling", "negatives": 3},
}


def settings_of(name: str) -> Any:
    return make_settings(**({"objective": name, "model": "complex", "dim": 16, "batch_size": BATCH} | CASES[name]))


def sent(world: World, name: str) -> dict[str, float]:
    """Return the bytes per step that this process sends, of facts drawn by the plan's power law."""
    draw, sizes = np.random.default_rng(0), np.array([ENTITIES, RELATIONS, ENTITIES])
    facts = (sizes * draw.random((FACTS, 3)) ** 2).astype(np.int64)
    entities = Vocabulary("entity", map(str, range(ENTITIES)))
    relations = Vocabulary("relation", map(str, range(RELATIONS)))
    graph = KnowledgeGraph("power law", entities, relations, Split(facts), Split(facts[:0]), Split(facts[:0]))
    settings = settings_of(name)
    engine = build_engine("auto", training_task(graph, settings, shard_model(graph, settings, world), world))
    world.sent.clear()
    engine.run_epoch()
    return {purpose: world.sent[purpose] / engine.batches for purpose in ("rows", "sums", "gradients")}


def main() -> None:
    with open_world("cpu") as world:
        found = {name: sent(world, name) for name in CASES}
        if world.rank == 0:
            Path(sys.argv[1]).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
