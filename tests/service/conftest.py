"""Runs and servers that the service's tests share; they need the extra `serve`, and httpx."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

import staypositive as sp
from conftest import ladder_graph

if TYPE_CHECKING:
    import httpx

collect_ignore_glob = [] if find_spec("fastapi") and find_spec("httpx") else ["*.py"]


@pytest.fixture(scope="session")
def geo_run() -> sp.Run:
    return sp.load_run("geo-demo")


@pytest.fixture(scope="session")
def address(geo_run: sp.Run) -> Iterator[str]:
    from service.serving import serving

    with serving(geo_run) as address:
        yield address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    import httpx

    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def judged_run() -> sp.Run:
    """A small run that has probabilities of unknown triples."""
    run = sp.fit(ladder_graph(), model="complex", dim=8, epochs=20, batch_size=64, learning_rate=0.5)
    run.calibrate("platt", completeness=0.8)
    return run


@pytest.fixture(scope="session")
def judged_address(judged_run: sp.Run) -> Iterator[str]:
    from service.serving import serving

    with serving(judged_run) as address:
        yield address


@pytest.fixture(scope="session")
def judged(judged_address: str) -> Iterator[httpx.Client]:
    import httpx

    with httpx.Client(base_url=judged_address, timeout=60) as client:
        yield client
