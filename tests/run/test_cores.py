"""A warning where several threads would wait for cores that others use."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.run import cores

CPU = torch.device("cpu")


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("free", "is_said"), [(0.4, True), (1.1, True), (1.9, False), (30.0, False), (None, False)])
def test_short_of_cores(
    free: float | None, is_said: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cores, "free_cores", lambda: free)
    cores.warn_if_busy(CPU)
    assert ("2 threads are to train" in caplog.text) is is_said


def test_one_thread_or_a_gpu_need_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "free_cores", lambda: pytest.fail("looked"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    cores.warn_if_busy(CPU)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    cores.warn_if_busy(torch.device("cuda"))


def test_the_count_is_linux_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "stat"
    monkeypatch.setattr(cores, "STATE", state)
    assert cores.free_cores() is None
    state.write_text("nothing\n", "utf-8")
    assert cores.free_cores() is None
    state.write_text("cpu  10 0 5 1000 7 0 0 0 0 0\ncpu0 10 0 5 1000 7 0 0 0 0 0\n", "utf-8")
    times = iter([10.0, 10.5])
    monkeypatch.setattr(cores.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(cores.time, "sleep", lambda _: state.write_text("cpu  40 0 9 1060 7 0 0 0 0 0\n", "utf-8"))
    assert cores.free_cores() == pytest.approx(60 / 100 / 0.5)


@pytest.mark.usefixtures("two_threads")
def test_a_training_says_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(cores, "free_cores", lambda: 0.2)
    with caplog.at_level(logging.WARNING):
        sp.fit(planted_graph(), model="distmult", dim=2, epochs=1, device="cpu", engine="reference")
    assert "leave about 0.2 cores" in caplog.text
