"""The theorems' curves and the samplers that Table 1 times."""

from __future__ import annotations

import math
import random

import pytest
import torch

from experiments.paper import sampling, theorems
from experiments.speed.timing import Workload

LOAD = Workload.synthetic(40, 300, n_relations=3)


def test_the_looping_sampler_corrupts_one_side() -> None:
    facts = torch.as_tensor(LOAD.facts[:50])
    drawn = sampling.draw_in_a_loop(facts, 20, 40, random.Random(0)).view(50, 20, 3)
    head, tail = drawn[..., 0] != facts[:, None, 0], drawn[..., 2] != facts[:, None, 2]
    assert not (head & tail).any()
    assert (drawn[..., 1] == facts[:, None, 1]).all()
    assert head.double().mean() == pytest.approx(0.5 * 39 / 40, abs=0.06)


def test_reduction_has_both_samplers() -> None:
    figures = sampling.time_reduction(LOAD, "reference", 64, 4, 1, (1, 2))
    assert [(f["negatives"], f["sampler"]) for f in figures] == [
        (1, "loop"), (1, "vectorised"), (2, "loop"), (2, "vectorised"),
    ]  # fmt: skip
    assert all(math.isfinite(f["reduction"]) for f in figures)  # how much, a quiet machine says


def test_sums_agree_for_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "SWEEPS", {"n_entities": (5, 9)})
    for figure in theorems.sums(repeats=1):
        assert figure["difference_of_means"] < 1e-5


def test_epochs_with_and_without_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "RATIOS", (2,))
    figures = list(theorems.epochs(LOAD, "distmult", 4, 64, repeats=1))
    assert [(f["objective"], f["negatives"]) for f in figures] == [("stay-positive", 0), ("negative-sampling", 2)]


@pytest.mark.slow
def test_peak_memory_of_enumeration_is_that_of_its_scores() -> None:
    figure = theorems.memory(1000, 4, "distmult", 8)
    assert figure["enumeration_peak_mb"] > 4 * 1000 * 1000 * 4 / 2**20 * 0.9
    assert figure["theorem_peak_mb"] < 5
