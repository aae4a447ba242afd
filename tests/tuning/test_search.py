"""The search on a tiny planted graph: both samplers, pruning, several processes, killed and taken up again."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

optuna = pytest.importorskip("optuna")

from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from graphs import encode
from staypositive.cli import app
from staypositive.training import EpochRecord
from staypositive.tuning import Range, Space, tune, write_best, write_study_page
from staypositive.tuning.search import _Reporting, alone

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::optuna.exceptions.ExperimentalWarning")

FIXED = {"model": "distmult", "epochs": 2, "validate_every": 1, "batch_size": 64, "threads": 1}
GRID = Space({"dim": (2, 4), "learning_rate": (1e-6, 0.5)}, FIXED)


@pytest.fixture(scope="module")
def graph() -> sp.KnowledgeGraph:
    return planted_graph(12)


def params(study: Any) -> list[tuple[tuple[str, Any], ...]]:
    return sorted(tuple(sorted(trial.params.items())) for trial in study.trials if trial.state.is_finished())


def test_a_grid_does_each_point_once_and_goes_on(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    store = tmp_path / "deep" / "g.db"
    first = tune(graph, GRID, sampler="grid", trials=1, storage=store, prune=False)
    assert first.finished == 1
    told: list[int] = []
    found = tune(graph, GRID, sampler="grid", storage=store, prune=False, progress=told.append)
    assert (found.finished, sum(told)) == (4, 3)
    assert params(found.study) == sorted(tuple(sorted(point.items())) for point in GRID.grid())
    assert found.monitor == "nll"
    assert found.value == min(trial.value for trial in found.study.trials)
    run = sp.fit(graph, found.settings)
    assert run.history[run.best_epoch - 1].validation["nll"] == pytest.approx(found.value, rel=1e-5)


def test_tpe_by_mrr_is_repeatable(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    space = Space({"learning_rate": Range(1e-3, 1.0, True), "dim": Range(2, 6)}, {**FIXED, "monitor": "mrr"})
    values = []
    for name in ("a", "b"):
        found = tune(graph, space, trials=3, study=name, storage=tmp_path / "t.db", seed=3)
        values.append([trial.params for trial in found.study.trials])
        assert found.value == max(t.value for t in found.study.trials if t.value is not None)
        assert all(isinstance(trial.params["dim"], int) for trial in found.study.trials)
    assert values[0] == values[1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_resumed_search_draws_anew(graph: sp.KnowledgeGraph, tmp_path: Path, jobs: int) -> None:
    space = Space({"learning_rate": Range(1e-3, 1.0, True)}, {**FIXED, "dim": 2, "epochs": 1})
    for trials in (2, 4):
        found = tune(graph, space, trials=trials, storage=tmp_path / "r.db", jobs=jobs)
    assert len({trial.params["learning_rate"] for trial in found.study.trials}) == 4


def test_validations_are_reported_and_laggards_pruned() -> None:
    said: list[tuple[float, int]] = []

    class Trial:
        def report(self, value: float, step: int) -> None:
            said.append((value, step))

        def should_prune(self) -> bool:
            return len(said) == 2

    watcher = _Reporting(Trial(), "mrr")
    watcher.on_epoch(EpochRecord(1, 0.0, {}, 0.0))
    watcher.on_epoch(EpochRecord(2, 0.0, {}, 0.0, {"mrr": 0.5}))
    with pytest.raises(optuna.TrialPruned, match="epoch 4"):
        watcher.on_epoch(EpochRecord(4, 0.0, {}, 0.0, {"mrr": 0.25}))
    assert said == [(0.5, 2), (0.25, 4)]


def test_a_bad_setting_is_pruned_by_the_median(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    space = Space({"learning_rate": (0.5, 0.4, 0.3, 0.6, 0.7, 1e-7)}, {**FIXED, "dim": 4, "epochs": 3})
    found = tune(graph, space, sampler="grid", storage=tmp_path / "p.db")
    states = {trial.params["learning_rate"]: trial.state.name for trial in found.study.trials}
    assert states.pop(1e-7) == "PRUNED"
    assert set(states.values()) == {"COMPLETE"}
    assert found.finished == 6


def test_a_setting_that_diverges_does_not_end_the_search(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    fixed = {**FIXED, "dim": 4, "bound": "identity", "optimiser": "adam", "penalty_weight": 1e30}
    found = tune(graph, Space({"learning_rate": (0.1, 1e30)}, fixed), sampler="grid", storage=tmp_path / "d.db")
    assert found.finished == 2
    assert any(trial.user_attrs.get("diverged") for trial in found.study.trials)
    none = tune(graph, Space({"learning_rate": (1e30,)}, fixed), sampler="grid", storage=tmp_path / "n.db")
    assert none.finished == 1
    with pytest.raises(sp.InputError, match="no trial of this study is complete"):
        write_best(none, "geo", tmp_path / "best.toml")


def test_another_search_under_the_same_name_is_refused(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    tune(graph, GRID, sampler="grid", trials=1, storage=tmp_path / "s.db")
    with pytest.raises(sp.SettingError, match="begun with another space"):
        tune(graph, GRID.with_fixed(epochs=1), sampler="grid", storage=tmp_path / "s.db")
    with pytest.raises(sp.SettingError, match="begun with another graph"):
        tune(planted_graph(10), GRID, sampler="grid", storage=tmp_path / "s.db")


def test_what_cannot_be_searched(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    bare = encode("bare", {"train": (("a",), ("r",), ("b",))}, {})
    with pytest.raises(sp.InputError, match="bare has no validation facts"):
        tune(bare, GRID, storage=tmp_path / "n.db")
    with pytest.raises(sp.SettingError, match="among tpe, grid"):
        tune(graph, GRID, sampler="luck", storage=tmp_path / "n.db")
    with pytest.raises(sp.SettingError, match="at least 1"):
        tune(graph, GRID, jobs=0, storage=tmp_path / "n.db")


KILLED_IN_THE_THIRD = """
import os, signal, sys
import staypositive.tuning.search as search
from staypositive.cli import app

plain, calls = search.fit, []

def fit(*arguments, **options):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*arguments, **options)

search.fit = fit
app(sys.argv[1:])
"""


def command(folder: Path, *more: str) -> list[str]:
    (folder / "s.toml").write_text(
        '[space]\ndim = [2, 3, 4]\nlearning_rate = [0.3, 0.5]\n[settings]\nmodel = "distmult"\n', "utf-8"
    )
    flags = ["--epochs", "2", "--validate-every", "1", "--batch-size", "64", "--threads", "1", "--no-prune"]
    where = ["--storage", f"sqlite:///{folder / 'k.db'}", "--study", "k", "--out", str(folder / "out")]
    return ["tune", str(folder / "g"), "--space", str(folder / "s.toml"), "--sampler", "grid", *flags, *where, *more]


def test_killed_and_taken_up_again_by_two_processes(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    sp.write_folder(graph, tmp_path / "g")
    asked, address = command(tmp_path), f"sqlite:///{tmp_path / 'k.db'}"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_THIRD, *asked], capture_output=True, encoding="utf-8"
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = optuna.load_study(study_name="k", storage=address).trials
    assert [t.state.name for t in before] == ["COMPLETE"] * 2 + ["RUNNING"] + ["WAITING"] * 3
    done = CliRunner().invoke(app, [*asked, "--jobs", "2", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["trials"] == 6
    assert report["command"].startswith("staypositive train ")
    study = optuna.load_study(study_name="k", storage=address)
    complete = [t for t in study.trials if t.state.name == "COMPLETE"]
    assert len({(t.params["dim"], t.params["learning_rate"]) for t in complete}) == len(complete) == 6
    assert [t.value for t in complete[:2]] == [t.value for t in before[:2]]  # what was done was not done again
    assert study.trials[2].state.name == "FAIL"
    assert not [t for t in study.trials if t.state.name in ("RUNNING", "WAITING")]
    assert "--learning-rate" in (tmp_path / "out" / "best.toml").read_text("utf-8")


def test_one_worker_at_a_time_takes_a_trial(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'l.db'}"
    other = sqlite3.connect(f"{tmp_path / 'l.db'}.lock", timeout=0)
    with closing(other), alone(address), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN EXCLUSIVE")
    with alone(address), alone("postgresql://elsewhere"):
        pass  # it is free again; a server has row locks of its own


def test_the_page_and_the_file_of_the_best(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    lists = Space({"dim": (2, 4), "learning_rate": (0.1, 0.2, 0.4, 0.8)}, FIXED)
    found = tune(graph, lists, sampler="grid", storage=tmp_path / "w.db", prune=False)
    text = write_study_page(found, "<b>&", tmp_path / "study.html").read_text("utf-8")
    assert "importance" in text
    assert "<b>&" not in text
    assert f"best validation {found.monitor}" in text
    assert text.count('class="bubble') >= 8 * 3  # each trial in the course and for each of two settings
    from staypositive.tuning import read_space

    kept = read_space(write_best(found, "geo", tmp_path / "best.toml"))
    assert kept.settings({}) == found.settings


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, graph: sp.KnowledgeGraph, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(sp.InputError, match=r"pip install 'staypositive\[tune\]'"):
        tune(graph, GRID, sampler="grid", storage=tmp_path / "e.db")
