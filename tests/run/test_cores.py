"""Threads that wait stop spinning while other programs use the cores, and nothing else changes."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from staypositive.run import cores

CPU = torch.device("cpu")
has_libgomp = pytest.mark.skipif(not cores.loaded_libraries(), reason="torch has no GNU OpenMP here")


@pytest.fixture
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cores.OWN_CHOICE:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch, no_choice: None) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


def test_what_others_use_is_what_this_process_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "stat"
    monkeypatch.setattr(cores, "STATE", state)
    monkeypatch.setattr(cores, "TICKS", 100)
    assert cores.Usage.now({0, 1}) is None
    state.write_text("cpu0 not numbers\n", "ascii")
    assert cores.Usage.now({0, 1}) is None
    own, clock = iter([5.0, 5.5]), iter([10.0, 11.0])
    monkeypatch.setattr(cores.time, "process_time", lambda: next(own))
    monkeypatch.setattr(cores.time, "perf_counter", lambda: next(clock))
    state.write_text(
        "cpu  0 0 0 0\ncpu0 10 0 5 1000 7 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 0\n", "ascii"
    )
    before = cores.Usage.now({0, 1})
    # A core's time: user, nice, system; not idle and waiting; interrupts; not what other guests took.
    state.write_text("cpu0 60 10 5 1000 9 0 0 0 0 0\ncpu1 40 0 0 0 0 10 10 20 0 0\ncpu2 900 0 0 0 0 0 0 0\n", "ascii")
    now = cores.Usage.now({0, 1})
    assert before is not None
    assert now is not None
    assert now.by_others_since(before) == pytest.approx((50 + 10 + 40 + 10 + 10) / 100 - 0.5)


@has_libgomp
def test_a_spare_team_comes_and_goes() -> None:
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    team = cores.SpareTeam(min(cores.loaded_libraries()), 3)
    assert len(list(tasks.iterdir())) > before + 1  # three, unless another thread ends meanwhile
    team.end()
    assert not team._thread.is_alive()


def test_a_file_that_is_no_library_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "libgomp.so.1"
    path.write_bytes(b"none")
    cores.SpareTeam(str(path), 3).end()


@has_libgomp
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("used", "is_crowded"), [(0.0, False), (0.1, False), (1.0, True), (2.0, True)])
def test_spinning_ends_while_others_use_the_cores(
    used: float, is_crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "own_cores", lambda: {0, 1})
    clock = itertools.count(100.0, 0.06)
    monkeypatch.setattr(cores.time, "perf_counter", lambda: next(clock))
    now = [used]
    monkeypatch.setattr(cores.Usage, "by_others_since", lambda self, before: now[0])
    with cores.SharedCores(CPU) as shared:
        for _ in range(9):
            shared.look()
        assert (len(shared._teams) > 0) is is_crowded
        now[0] = 0.0
        for _ in range(9):
            shared.look()
        assert not shared._teams
        now[0] = used
        for _ in range(9):
            shared.look()
    assert not shared._teams
    shared.look()
    assert not shared._teams


@pytest.mark.usefixtures("two_threads")
def test_where_the_system_does_not_tell_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.Usage, "now", lambda cores: None)
    with cores.SharedCores(CPU) as shared:
        shared.look()
        assert not shared._teams


@pytest.mark.usefixtures("two_threads")
def test_one_thread_a_gpu_or_a_choice_of_the_user_need_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores.SharedCores(CPU).is_needed is (sys.platform == "linux")
    assert not cores.SharedCores(torch.device("cuda")).is_needed
    for name in cores.OWN_CHOICE:
        monkeypatch.setenv(name, "0")
        assert not cores.SharedCores(CPU).is_needed
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert not cores.SharedCores(CPU).is_needed


@has_libgomp
@pytest.mark.usefixtures("no_choice")
@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_a_training_has_the_same_weights_either_way(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "fused":
        pytest.importorskip("numba")
    found = []
    for crowded in (lambda: False, lambda: True, iter([False, True] * 10_000).__next__):
        monkeypatch.setattr(cores, "LOOK", 0.0)
        monkeypatch.setattr(cores.Usage, "by_others_since", lambda self, before, crowded=crowded: 99.0 * crowded())
        run = sp.fit(planted_graph(), model="complex", dim=8, epochs=3, threads=min(2, os.cpu_count() or 1),
                     engine=engine)  # fmt: skip
        found.append(run.model.entities.detach().clone())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
