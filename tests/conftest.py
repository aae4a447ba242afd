"""Small graphs and runs that many tests share."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports triton: GPU kernels run on the CPU here
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before anything imports torch: cores are shared
SURROUNDINGS = (
    "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PY_COLORS", "TERMINAL_WIDTH",
    "TTY_COMPATIBLE", "TTY_INTERACTIVE",
)  # fmt: skip
"""What would change what commands print."""
for variable in SURROUNDINGS:  # before anything imports typer, which looks at some of them once
    os.environ.pop(variable, None)
os.environ |= {"COLUMNS": "160", "TERM": "xterm"}
for variable in ("no_proxy", "NO_PROXY"):  # servers of the tests are on the loopback, whatever the network's way out
    os.environ[variable] = ",".join(filter(None, [os.environ.get(variable), "127.0.0.1", "localhost"]))

import hypothesis
import numpy as np
import pytest
import torch

import staypositive as sp
from graphs import encode
from staypositive.models import MODELS, BilinearModel, build_model

hypothesis.settings.register_profile(  # the same cases everywhere, however slow the machine is
    "suite", derandomize=True, database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAYPOSITIVE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_launch() -> Iterator[None]:
    """Let no launcher of the tests, nor an operator's token, decide what commands do."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "STAYPOSITIVE_TOKEN"):
            patch.delenv(name, raising=False)
        yield


@contextmanager
def kept_logging() -> Iterator[None]:
    """Put the loggers back that commands set up."""
    loggers = [logging.getLogger(), logging.getLogger("staypositive")]
    before = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    yield
    for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Let no command that a test calls decide what later tests hear."""
    with kept_logging():
        yield


@contextmanager
def kept_threads() -> Iterator[None]:
    """Put torch's number of threads back."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """Let no training that a test asks for decide how many threads later tests have."""
    with kept_threads():
        yield


def load_example(name: str) -> ModuleType:
    """Import a script of `examples/`, which is no package."""
    path = Path(__file__).resolve().parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


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
    return held_out("planted", facts, false, draw)


def ladder_graph(n: int = 40, seed: int = 0) -> sp.KnowledgeGraph:
    """People on five rungs: `peer` on the same one, `below` the next; a quarter is held out, with true negatives."""
    rung = np.arange(n) % 5
    names = {0: "peer", 1: "below"}
    steps = [(a, b, rung[b] - rung[a]) for a in range(n) for b in range(n) if a != b]
    facts = [(f"p{a}", names[step], f"p{b}") for a, b, step in steps if step in names]
    false = [(h, r, f"p{(int(t[1:]) + 2) % n}") for h, r, t in facts]
    return held_out("ladder", facts, false, np.random.default_rng(seed))


Labels = tuple[str, str, str]


def incomplete_graph(
    n: int = 40, groups: int = 5, hidden: int = 60, held: int = 60, seed: int = 0
) -> tuple[sp.KnowledgeGraph, list[Labels]]:
    """People of some groups: `peer` within one, `below` the next. Some facts are in no split: these are returned."""
    group = np.arange(n) % groups
    names = {0: "peer", 1: "below"}
    steps = [(a, b, (group[b] - group[a]) % groups) for a in range(n) for b in range(n) if a != b]
    facts = [(f"p{a}", names[step], f"p{b}") for a, b, step in steps if step in names]
    parts = np.split(np.random.default_rng(seed).permutation(len(facts)), np.cumsum([hidden, held, held]))
    missing, *chosen = ([facts[i] for i in part] for part in parts)
    splits = zip(("valid", "test", "train"), chosen, strict=True)
    columns = {split: tuple(zip(*own, strict=True)) for split, own in splits if own}
    return encode("incomplete", columns, {}), missing


def held_out(
    name: str, facts: list[tuple[str, str, str]], false: list[tuple[str, str, str]], draw: np.random.Generator
) -> sp.KnowledgeGraph:
    """Three quarters of the facts to train on, the rest in halves, each fact beside its false twin."""
    order = draw.permutation(len(facts))
    cut, half = int(0.75 * len(order)), int(0.875 * len(order))
    train = [facts[i] for i in order[:cut]]
    parts = {"train": tuple(zip(*train, strict=True))}
    labels: dict[str, np.ndarray | None] = {"train": None}
    for split, chosen in (("valid", order[cut:half]), ("test", order[half:])):
        rows = [facts[i] for i in chosen] + [false[i] for i in chosen]
        parts[split] = tuple(zip(*rows, strict=True))
        labels[split] = np.repeat([1, -1], len(chosen)).astype(np.int8)
    return encode(name, parts, labels)


@pytest.fixture(scope="session")
def planted() -> sp.KnowledgeGraph:
    return planted_graph()


@pytest.fixture(scope="session")
def planted_run(planted: sp.KnowledgeGraph) -> sp.Run:
    return sp.fit(planted, model="distmult", dim=8, epochs=60, batch_size=64, validate_every=20, learning_rate=0.5)


@pytest.fixture(scope="session")
def incomplete() -> tuple[sp.KnowledgeGraph, list[Labels]]:
    return incomplete_graph()


def quick_fit(graph: sp.KnowledgeGraph, **changes: object) -> sp.Run:
    """Train a model that tells the groups of a small graph apart, in a third of a second."""
    options = {"model": "complex", "dim": 8, "epochs": 20, "batch_size": 64, "unobserved_weight": 0.05}
    return sp.fit(graph, objective="second-moment", **options | changes)


@pytest.fixture(scope="session")
def incomplete_run(incomplete: tuple[sp.KnowledgeGraph, list[Labels]]) -> sp.Run:
    """A run with fitted probabilities, on a graph of which it is known what is missing; tests leave it as it is."""
    run = quick_fit(incomplete[0])
    run.calibrate()
    return run
