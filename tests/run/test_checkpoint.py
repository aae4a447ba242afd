"""Checkpoints: a training that is cut anywhere goes on to the same weights; what is damaged or alien is refused."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import staypositive as sp
from conftest import planted_graph
from launching import TESTS
from staypositive import files, sealed_folder
from staypositive.models import MODELS
from staypositive.objectives import OBJECTIVES
from staypositive.run.checkpoint import CHECKPOINT, CheckpointFolder, epochs_done
from staypositive.training import EpochRecord, TrainingState

GRAPH = planted_graph(12)
SMALL = {"model": "simple", "dim": 3, "epochs": 4, "validate_every": 2, "batch_size": 40}


def weights(run: sp.Run) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in run.model.state_dict().items()}


def assert_same(found: sp.Run, expected: sp.Run) -> None:
    for name, weight in weights(expected).items():
        assert torch.equal(weights(found)[name], weight), name
    assert found.best_epoch == expected.best_epoch
    assert untimed(found.history) == untimed(expected.history)


def untimed(history: tuple[EpochRecord, ...]) -> list[dict[str, object]]:
    return [{name: value for name, value in vars(record).items() if name != "seconds"} for record in history]


def after(epochs: int) -> Callable[[], bool]:
    answers = iter([False] * (epochs - 1) + [True])
    return lambda: next(answers)


def stop_after(done: int, folder: Path, every: int | str = "1h", **settings: object) -> None:
    with pytest.raises(sp.StoppedError, match=f"stopped after epoch {done} of"):
        sp.fit(GRAPH, **SMALL | settings, checkpoint=sp.Checkpoint(folder, every), should_stop=after(done))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_and_objective_goes_on_to_the_same_weights(model: str, objective: str, tmp_path: Path) -> None:
    chosen = {"model": model, "objective": objective, "dropout": 0.2}
    stop_after(1, tmp_path / "c", **chosen)
    with pytest.raises(sp.StoppedError):
        sp.fit(GRAPH, **SMALL | chosen, checkpoint=tmp_path / "c", should_stop=after(2))
    run = sp.fit(GRAPH, **SMALL | chosen, checkpoint=tmp_path / "c")
    assert_same(run, sp.fit(GRAPH, **SMALL | chosen))
    assert run.provenance["resumed_after"] == [1, 3]


@pytest.mark.parametrize(
    "chosen",
    [
        {"optimiser": "adam"},
        {"optimiser": "adagrad-rowwise", "precision": "bfloat16"},
        {"engine": "reference", "monitor": "mrr", "patience": 1, "validate_every": 1, "epochs": 9},
        {"objective": "second-moment", "gram_update_interval": 4, "epochs": 6},
        {"objective": "second-moment", "weighting": "query", "reciprocal": False},
    ],
    ids=str,
)
def test_every_optimiser_and_engine_goes_on_to_the_same_weights(chosen: dict[str, object], tmp_path: Path) -> None:
    stop_after(2, tmp_path, **chosen)
    assert_same(sp.fit(GRAPH, **SMALL | chosen, checkpoint=tmp_path), sp.fit(GRAPH, **SMALL | chosen))


def test_a_start_from_an_earlier_run_goes_on(tmp_path: Path) -> None:
    first, other = sp.fit(GRAPH, **SMALL), sp.fit(planted_graph(10), **SMALL)
    with pytest.raises(sp.StoppedError):
        sp.fit(GRAPH, **SMALL, start_from=first, checkpoint=tmp_path, should_stop=after(2))
    with pytest.raises(sp.SettingError, match=r"start_from\.graph_sha256 is"):
        sp.fit(GRAPH, **SMALL, start_from=other, checkpoint=tmp_path)
    run = sp.fit(GRAPH, **SMALL, start_from=first, checkpoint=tmp_path)
    assert_same(run, sp.fit(GRAPH, **SMALL, start_from=first))


class KilledError(BaseException):
    """A kill, as far as Python can play one: nothing catches it."""


@pytest.mark.parametrize("place", ["write_atomic", "sync_folder", "unlink", "half"])
def test_a_kill_at_any_call_of_any_save_changes_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call in turn is the last one; the training that goes on is killed once more, and the third one ends."""
    expected = sp.fit(GRAPH, **SMALL)
    calls, last = 0, 0

    def counted(work: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == last:
                if place == "half":
                    path, data = given
                    (path.parent / f".{path.name}.xyz.part").write_bytes(bytes(data)[:100])
                raise KilledError
            return work(*given, **named)

        return call

    if place == "unlink":
        monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    else:
        name = "write_atomic" if place == "half" else place
        monkeypatch.setattr(sealed_folder, name, counted(getattr(files, name)))
    kills = 0
    while True:
        calls, last, folder = 0, kills + 1, tmp_path / str(kills)
        try:
            sp.fit(GRAPH, **SMALL, checkpoint=sp.Checkpoint(folder, 1))
            break
        except KilledError:
            kills += 1
        calls, last = 0, 3
        with contextlib.suppress(KilledError):
            sp.fit(GRAPH, **SMALL, checkpoint=sp.Checkpoint(folder, 1))
        last = 0
        assert_same(sp.fit(GRAPH, **SMALL, checkpoint=folder), expected)
        assert not list(folder.glob(".*.part"))
    assert kills >= 4  # one call of each of the four saves, at least


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_real_kills_at_random_instants(tmp_path: Path) -> None:
    command = [sys.executable, str(TESTS / "killing.py"), str(tmp_path), "4"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4  # each is killed once at the least
    expected = sp.load_run(tmp_path / "whole" / "run")
    for trial in range(4):
        assert_same(sp.load_run(tmp_path / str(trial) / "run"), expected)


def test_nothing_but_the_last_state_is_left(tmp_path: Path) -> None:
    sp.fit(GRAPH, **SMALL, checkpoint=sp.Checkpoint(tmp_path, 1))
    stems = sorted(path.name.split(".")[0] for path in tmp_path.iterdir())
    assert stems == ["best", "checkpoint", "history", "state", "training"]
    assert epochs_done(tmp_path) == 4
    assert epochs_done(tmp_path / "nowhere") == 0
    CHECKPOINT.clear(tmp_path)
    assert not tmp_path.exists()
    CHECKPOINT.clear(tmp_path)


def test_a_training_that_has_ended_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sp.fit(GRAPH, **SMALL, checkpoint=tmp_path)
    monkeypatch.setattr("staypositive.training.loop._epoch", lambda *_: pytest.fail("trained"))
    assert_same(sp.fit(GRAPH, **SMALL, checkpoint=tmp_path), first)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dim": 4}, "dim is 3 there and 4 here"),
        ({"seed": 1, "learning_rate": 0.2}, "learning_rate is 0.1 there and 0.2 here; seed is 0 there and 1 here"),
        ({"penalty_weight": 0.3}, r"objective\.penalty_weight is 0.1 there and 0.3 here"),
        ({"objective": "1vsall", "epochs": 9}, "objective.name is stay-positive there and 1vsall here"),
        ({"engine": "reference"}, "engine is fused-cpu there and autograd here"),
    ],
)
def test_another_training_is_refused_by_what_differs(change: dict[str, object], said: str, tmp_path: Path) -> None:
    stop_after(3, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(sp.SettingError, match=f"is of another training: .*{said}.*choose another folder"):
        sp.fit(GRAPH, **SMALL | change, checkpoint=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_fewer_epochs_than_are_done_are_refused(tmp_path: Path) -> None:
    stop_after(3, tmp_path)
    with pytest.raises(sp.SettingError, match=r"3 of 4 epochs are done in .*; give a number above 3"):
        sp.fit(GRAPH, **SMALL | {"epochs": 3}, checkpoint=tmp_path)


def test_another_graph_is_refused(tmp_path: Path) -> None:
    stop_after(3, tmp_path)
    with pytest.raises(sp.SettingError, match=r"graph \(SHA-256\) is"):
        sp.fit(planted_graph(12, seed=5), **SMALL, checkpoint=tmp_path)


def test_the_number_of_epochs_may_change_while_it_lies_ahead(tmp_path: Path) -> None:
    stop_after(2, tmp_path)
    assert_same(sp.fit(GRAPH, **SMALL | {"epochs": 7}, checkpoint=tmp_path), sp.fit(GRAPH, **SMALL | {"epochs": 7}))


def test_other_threads_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stop_after(2, tmp_path)
    manifest = json.loads((tmp_path / "checkpoint.json").read_text("utf-8"))
    about = json.loads((tmp_path / manifest["files"]["training.json"]["file"]).read_text("utf-8"))
    about["origin"]["threads"] = other = torch.get_num_threads() + 1
    kept = CHECKPOINT.load(tmp_path)
    CHECKPOINT.save(tmp_path, kept | {"training.json": files.to_json(about)}, "0")
    sp.fit(GRAPH, **SMALL, checkpoint=tmp_path)
    assert f"had threads {other}, now" in caplog.text
    assert "last bits" in caplog.text


@pytest.mark.parametrize("role", ["state", "best", "history", "training", "checkpoint"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damage_is_found_and_named(role: str, damage: str, tmp_path: Path) -> None:
    stop_after(2, tmp_path)
    path = next(tmp_path.glob(f"{role}.*"))
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    if (role, damage) == ("checkpoint", "gone"):  # no checkpoint at all
        return
    with pytest.raises(sp.RunError, match=path.name):
        sp.fit(GRAPH, **SMALL, checkpoint=tmp_path)


def test_a_checkpoint_that_says_nonsense_is_refused(tmp_path: Path) -> None:
    stop_after(2, tmp_path)
    kept = CHECKPOINT.load(tmp_path)
    for role, data, said in (
        ("training.json", b"{}", "not a readable checkpoint: training.json does not say of which training it is"),
        ("history.json", b'[{"x": 1}]', "not a readable checkpoint: ValueError: .* unexpected keyword argument 'x'"),
        ("state.safetensors", b"nonsense", "not a readable checkpoint"),
        ("state.safetensors", kept["best.safetensors"], "expected model.entities"),
    ):
        CHECKPOINT.save(tmp_path, kept | {role: data}, "0")
        with pytest.raises(sp.RunError, match=said):
            sp.fit(GRAPH, **SMALL, checkpoint=tmp_path)


def test_a_disk_that_is_full_for_a_while_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system itself refuses the write: no file may grow past some bytes."""
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    real, saves = CheckpointFolder.save, 0

    def save(self: CheckpointFolder, state: TrainingState) -> None:
        nonlocal saves
        saves += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 if saves in (2, 3) else least, most))
        try:
            real(self, state)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))

    monkeypatch.setattr(CheckpointFolder, "save", save)
    with pytest.raises(sp.RunError, match=f"cannot write the checkpoint to {tmp_path}: File too large"):
        sp.fit(GRAPH, **SMALL, checkpoint=sp.Checkpoint(tmp_path, 1), should_stop=after(3))
    assert "File too large; training continues" in caplog.text
    assert epochs_done(tmp_path) == 1
    assert len(list(tmp_path.iterdir())) == 5  # the old state's, and nothing of the new one's
    assert_same(sp.fit(GRAPH, **SMALL, checkpoint=tmp_path), sp.fit(GRAPH, **SMALL))


def test_what_cannot_be_written_is_said_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.training.loop._epoch", lambda *_: pytest.fail("trained"))
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(sp.RunError, match=r"cannot write to .*: Not a directory"):
        sp.fit(GRAPH, **SMALL, checkpoint=tmp_path / "file" / "c")
    with pytest.raises(sp.RunError, match="not a checkpoint's"):
        sp.fit(GRAPH, **SMALL, checkpoint=tmp_path)

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", forbidden)
    with pytest.raises(sp.RunError, match=r"cannot write to .*: Permission denied"):
        sp.fit(GRAPH, **SMALL, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("every", [0, "0s", "soon", "-1", "5x", "", 1.5])
def test_an_interval_that_means_nothing_is_refused(every: object) -> None:
    with pytest.raises(sp.SettingError, match="a number of epochs such as 5, or a time such as 30s, 10m or 2h"):
        sp.Checkpoint("x", every)


def test_by_time_or_by_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    timed = CheckpointFolder(sp.Checkpoint(tmp_path, "2m"), {}, {})
    counted = CheckpointFolder(sp.Checkpoint(tmp_path, "3"), {}, {})
    assert [counted.is_due(epoch) for epoch in (1, 2, 3, 4, 6)] == [False, False, True, False, True]
    assert not timed.is_due(1)
    now = 219.0
    assert not timed.is_due(2)
    now = 220.0
    assert timed.is_due(3)
