"""Small graphs and runs that many tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports triton: GPU kernels run on the CPU here

import numpy as np
import pytest
import torch

import staypositive as sp
from staypositive.graph.knowledge_graph import encode
from staypositive.models import MODELS, BilinearModel, build_model


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAYPOSITIVE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=sorted(MODELS))
def model_name(request: pytest.FixtureRequest) -> str:
    """Every model that is registered: a new one is tested at once."""
    return str(request.param)


def tiny_model(name: str, bound: str = "tanh", dim: int = 4, seed: int = 0, **settings: object) -> BilinearModel:
    model = build_model(name, 7, 3, dim, bound=bound, **settings).double()
    model.initialise(torch.Generator().manual_seed(seed), 1.0)
    return model


def planted_graph(n: int = 40, seed: int = 0) -> sp.KnowledgeGraph:
    """People of two houses: `ally` within a house, `rival` across; a quarter is held out, with true negatives."""
    draw = np.random.default_rng(seed)
    house = np.arange(n) % 2
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    facts = [(f"p{a}", "ally" if house[a] == house[b] else "rival", f"p{b}") for a, b in pairs]
    false = [(h, "rival" if r == "ally" else "ally", t) for h, r, t in facts]
    order = draw.permutation(len(facts))
    cut, half = int(0.75 * len(order)), int(0.875 * len(order))
    train = [facts[i] for i in order[:cut]]
    parts = {"train": tuple(zip(*train, strict=True))}
    labels: dict[str, np.ndarray | None] = {"train": None}
    for name, chosen in (("valid", order[cut:half]), ("test", order[half:])):
        rows = [facts[i] for i in chosen] + [false[i] for i in chosen]
        parts[name] = tuple(zip(*rows, strict=True))
        labels[name] = np.repeat([1, -1], len(chosen)).astype(np.int8)
    return encode("planted", parts, labels)


@pytest.fixture(scope="session")
def planted() -> sp.KnowledgeGraph:
    return planted_graph()


@pytest.fixture(scope="session")
def planted_run(planted: sp.KnowledgeGraph) -> sp.Run:
    return sp.fit(planted, model="distmult", dim=8, epochs=60, batch_size=64, validate_every=20, learning_rate=0.5)
