"""Sampling as many candidates as there are entities is no sampling."""

from __future__ import annotations

import pytest

import staypositive as sp
from staypositive.errors import InputError


def test_a_sample_of_all_is_refused(planted_run: sp.Run) -> None:
    count = len(planted_run.graph.entities)
    with pytest.raises(InputError, match=f"there are {count} entities: rank among all of them"):
        planted_run.evaluate("test", sampled=count)
    assert "sampled_mrr" in str(planted_run.evaluate("test", sampled=count - 1))
