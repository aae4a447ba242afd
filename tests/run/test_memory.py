"""When memory runs out: the error says so, and what to make smaller; other errors stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.errors import ShortOfMemoryError, advising, ran_out_of_memory


def too_much_for_torch() -> None:
    torch.empty(2**52, dtype=torch.float64)


def too_much_for_numpy() -> None:
    np.empty(2**58)


def too_much_for_python() -> None:
    bytearray(2**62)


def too_much_for_the_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def too_much_as_told_by_windows() -> None:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory")


SHORT = [
    too_much_for_torch, too_much_for_numpy, too_much_for_python, too_much_for_the_gpu, too_much_as_told_by_windows,
]  # fmt: skip


@pytest.mark.parametrize("work", SHORT)
def test_every_way_of_saying_it_is_understood(work) -> None:
    said = r"^memory ran out while counting; count less$"
    with pytest.raises(ShortOfMemoryError, match=said) as caught, advising("counting", "count less"):
        work()
    assert ran_out_of_memory(caught.value.__cause__)
    with pytest.raises(ShortOfMemoryError, match="counting"), advising("all", "x"), advising("counting", "y"):
        work()  # the innermost knows best


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes") as caught, advising("counting", "count less"):
        raise RuntimeError("shapes differ")
    assert not isinstance(caught.value, ShortOfMemoryError)
    assert not ran_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize("work", SHORT)
def test_training_and_ranking_say_what_to_make_smaller(work, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    graph = planted_graph(8)
    with pytest.raises(sp.StoppedError) as stopped:
        sp.fit(graph, model="simple", dim=2, epochs=3, checkpoint=tmp_path, should_stop=lambda: True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("staypositive.run.run.rank_split", lambda *_: work())
    with pytest.raises(ShortOfMemoryError, match="while ranking test; give evaluate a smaller memory"):
        stopped.value.run.evaluate("test")
    monkeypatch.setattr("staypositive.training.loop._epoch", lambda *_: work())
    with pytest.raises(
        ShortOfMemoryError, match="while training; try a smaller batch_size than 1024 or a smaller dim"
    ):
        sp.fit(graph, model="simple", dim=2, epochs=3, checkpoint=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_preparing_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.run.fitting.training_facts", lambda *_: too_much_for_torch())
    with pytest.raises(ShortOfMemoryError, match="while preparing to train; try a smaller batch_size"):
        sp.fit(planted_graph(8), dim=2, epochs=1)
