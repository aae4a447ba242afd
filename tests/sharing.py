"""What the processes of the tests run: every case trained in shares, and the results of process 0 kept in a file.

Run by torchrun: `sharing.py FILE [DEVICE]`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from conftest import planted_graph
from staypositive.graph import KnowledgeGraph, Split, Vocabulary
from staypositive.run import Settings, make_settings, training_task
from staypositive.sharded import (
    World,
    discover_sharded,
    open_world,
    rank_sharded,
    score_sharded,
    shard_model,
)
from staypositive.training import build_engine
from stepping import epoch

STAY, SECOND, DRAWN = ({"objective": name} for name in ("stay-positive", "second-moment", "negative-sampling"))
CASES: dict[str, dict[str, Any]] = {
    "batch-scope": {**STAY, "model": "simple", "dropout": 0.3, "prior_score": -0.7},
    "all-scope": {
        **STAY,
        "model": "complex",
        "scope": "all",
        "power": 2,
        "weighting": "paper",
        "penalty_weight": 1e-6,
    },
    "adam": {**STAY, "model": "rescal", "optimiser": "adam", "learning_rate": 0.01},
    "rowwise": {**STAY, "model": "hole", "scope": "all", "optimiser": "adagrad-rowwise"},
    "own-matrices": {**STAY, "model": "ntn", "slices": 2},
    "moments": {**SECOND, "model": "distmult", "init_scale": 0.5, "dropout": 0.2},
    "moments-of-heads": {**SECOND, "model": "complex", "init_scale": 0.5, "dropout": 0.2, "reciprocal": False},
    "moments-of-all": {**SECOND, "model": "simple", "init_scale": 0.5, "weighting": "all", "n3_power": 0.5},
    "moments-of-queries": {**SECOND, "model": "transe", "init_scale": 0.5, "weighting": "query"},
    "moments-bounded": {
        **SECOND,
        "model": "tucker",
        "bound": "tanh",
        "likelihood_weight": 0.1,
        "relation_power": 0.5,
    },
    "drawn": {**DRAWN, "model": "quaternion", "negatives": 3, "dropout": 0.3},
    "confidences": {**DRAWN, "model": "cp", "negatives": 2, "weighted": True},
}
"""Batches of 413 of 414 facts: the last has one fact, so that all processes but one are left without."""
EPOCHS = 3


def case(name: str) -> tuple[KnowledgeGraph, Settings]:
    chosen = dict(CASES[name])
    graph = planted_graph(24)
    if chosen.pop("weighted", False):
        weights = np.linspace(0, 2, len(graph.train), dtype=np.float32)
        graph = replace(graph, train=Split(graph.train.triples, weights=weights))
    return graph, make_settings(dim=4, batch_size=413, seed=5, **chosen)


def train(name: str, world: World) -> dict[str, Tensor]:
    """Train a case for some epochs; return losses and whole tables, and ranks and scores by all processes."""
    graph, settings = case(name)
    model = shard_model(graph, settings, world).double()
    engine = build_engine("auto", training_task(graph, settings, model, world))
    world.sent.clear()
    losses = torch.stack([torch.stack(list(epoch(engine).values())) for _ in range(EPOCHS)])
    found = {f"sent_{purpose}": torch.tensor(world.sent[purpose]) for purpose in ("sums", "rows", "gradients")}
    found |= {"losses": losses.cpu(), "mean_score": torch.tensor(engine.mean_scores()[0], dtype=torch.float64)}
    ranks = rank_sharded(world, model, graph.test.facts, graph.facts(), memory=4000)
    counts = np.stack([ranks.better, ranks.ties, ranks.candidates, ranks.raw_better, ranks.raw_ties])
    found["ranks"] = torch.from_numpy(counts)
    new = list(discover_sharded(world, graph, model, most=20, piece=100))
    found["new"] = torch.from_numpy(np.concatenate([relation.triples for relation in new]))
    found["scores"] = torch.from_numpy(score_sharded(world, model, graph.test.triples[:3]))
    found |= {name: weight.detach().cpu() for name, weight in model.named_parameters()}
    whole = world.gather(model.entities.detach(), model.n_entities)
    return found if whole is None else found | {"entities": whole}


def rows_moved(world: World, **settings: Any) -> int:
    """Return the bytes of rows that this process sends in an epoch of 2000 random facts about 5000 entities."""
    facts = np.random.default_rng(0).integers((5000, 3, 5000), size=(2000, 3))
    vocabularies = Vocabulary("entity", map(str, range(5000))), Vocabulary("relation", "abc")
    graph = KnowledgeGraph("random", *vocabularies, Split(facts), Split(facts[:0]), Split(facts[:0]))
    chosen = make_settings(model="distmult", dim=16, batch_size=500, **settings)
    engine = build_engine("auto", training_task(graph, chosen, shard_model(graph, chosen, world), world))
    world.sent.clear()
    engine.run_epoch()
    return world.sent["rows"]


def main() -> None:
    with open_world(sys.argv[2] if len(sys.argv) > 2 else "cpu") as world:
        found = {f"{name}/{part}": value for name in CASES for part, value in train(name, world).items()}
        found["rows/facts"] = torch.tensor(rows_moved(world, **STAY))
        found["rows/drawn"] = torch.tensor(rows_moved(world, **DRAWN, negatives=10))
        if world.rank == 0:
            save_file({name: value.contiguous() for name, value in found.items()}, sys.argv[1])


if __name__ == "__main__":
    main()
