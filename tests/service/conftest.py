"""One run and one server for the service's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

import staypositive as sp
from service.serving import serving


@pytest.fixture(scope="session")
def geo_run() -> sp.Run:
    return sp.load_run("geo-demo")


@pytest.fixture(scope="session")
def address(geo_run: sp.Run) -> Iterator[str]:
    with serving(geo_run) as address:
        yield address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client
