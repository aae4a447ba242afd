"""Requests made from the OpenAPI schema, right and wrong ones: none is answered with a 5xx or out of its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import staypositive as sp
from service.serving import serving
from staypositive.service import Limits

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
QUICK = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.fixture(scope="module")
def address(judged_run: sp.Run) -> Iterator[str]:
    """Serve a run with time for the largest question there is, however busy the machine: 504 has tests of its own."""
    with serving(judged_run, limits=Limits(seconds=600)) as address:
        yield address


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
def test_no_request_breaks_the_service(address: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 16
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
            continue  # nothing to get wrong

        @QUICK
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            case.call_and_validate(checks=CHECKS, timeout=600)

        holds()
