"""PyKEEN's bundled Nations, as it is and with inverse triples."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def frozen() -> Iterator[None]:
    """PyKEEN collects garbage after each epoch; what importing left behind need not be looked at each time."""
    gc.collect()
    gc.freeze()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors are tiny: a second thread would only wait
    yield
    torch.set_num_threads(threads)
    gc.unfreeze()


@pytest.fixture(scope="session", params=(False, True), ids=("plain", "inverse"))
def nations(request: pytest.FixtureRequest) -> Any:
    from pykeen.datasets import Nations

    return Nations(create_inverse_triples=request.param)


@pytest.fixture(scope="session")
def plain_nations() -> Any:
    from pykeen.datasets import Nations

    return Nations()
