"""One run and one server for the service's tests, which need the extra `serve`, and httpx."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

import staypositive as sp

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
