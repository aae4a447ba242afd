"""Stopping `train` by a signal and going on: messages, exit codes, the same weights; every error one line."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from experiments.store import read_results
from staypositive import sealed_folder
from staypositive.cli import app, main
from staypositive.cli.stopping import StopSignals
from staypositive.training import loop

ROOT = Path(__file__).resolve().parents[2]
FAST = [
    "--dim",
    "3",
    "--epochs",
    "4",
    "--validate-every",
    "2",
    "--threads",
    "1",
    "--no-evaluate",
    "--calibrate",
    "none",
]


class Outcome:
    """What a command said, and its exit code."""

    def __init__(self, code: int, said: str) -> None:
        self.code, self.said = code, said


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `staypositive train geo` as a shell would."""

    def run(folder: Path, *more: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["staypositive", "train", "geo", "--out", str(folder), *FAST, *more])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Outcome(code, out + err)

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    folder = tmp_path_factory.mktemp("whole") / "run"
    CliRunner().invoke(app, ["train", "geo", "--out", str(folder), *FAST], catch_exceptions=False)
    return sp.load_run(folder)


def at_epoch(epoch: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen while an epoch runs."""
    real = loop._epoch

    def epoch_with_news(engine: object, number: int) -> object:
        if number == epoch:
            act()
        return real(engine, number)

    monkeypatch.setattr(loop, "_epoch", epoch_with_news)


def assert_same(folder: Path, whole: sp.Run) -> None:
    found = sp.load_run(folder)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], weight)
    assert not (folder / "checkpoint").exists()
    assert not list(folder.glob(".*"))


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """A shell starts what it runs in the background with Ctrl-C ignored, and so these tests too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_after_the_epoch_and_resume_goes_on(
    number: int, code: int, call, whole: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = tmp_path / "run", [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        at_epoch(2, lambda: signal.raise_signal(number), patch)
        stopped = call(folder)
    assert stopped.code == code
    assert "stopping after this epoch; once more to stop at once" in stopped.said
    again = f"staypositive train geo --out {folder} {' '.join(FAST)} --resume"
    assert f"training was stopped after epoch 2 of 4; go on with: {again}" in stopped.said
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    refused = call(folder)
    assert refused.code == 2
    assert "stopped after epoch 2; `train --resume` goes on with it, --force begins anew" in refused.said
    on = call(folder, "--resume")
    assert "going on after epoch 2" in on.said
    assert_same(folder, whole)
    assert sp.load_run(folder).provenance["resumed_after"] == [2]


def test_a_second_signal_stops_at_once(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        at_epoch(3, twice, patch)
        stopped = call(tmp_path / "run", "--checkpoint-every", "2")
    assert stopped.code == 130
    assert "go on with: staypositive train" in stopped.said
    assert "going on after epoch 2" in call(tmp_path / "run", "--resume").said


def test_a_signal_that_comes_as_training_ends_is_heeded(
    call, whole: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StopSignals.__exit__

    def late(self: StopSignals, *error: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        real(self, *error)

    with monkeypatch.context() as patch:
        patch.setattr(StopSignals, "__exit__", late)
        stopped = call(tmp_path / "run")
    assert stopped.code == 143
    assert "training had just ended; go on with" in stopped.said
    call(tmp_path / "run", "--resume")
    assert_same(tmp_path / "run", whole)


def test_signals_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop()
    finally:
        signal.signal(signal.SIGINT, before)


def test_resume_begins_where_there_is_nothing_and_ends_where_all_is_done(call, whole: sp.Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert f"no checkpoint in {folder}, so training begins" in call(folder, "--resume").said
    assert_same(folder, whole)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = call(folder, "--resume")
    assert (done.code, "finished run (4 epochs): nothing is left to do" in done.said) == (0, True)
    assert json.loads(call(folder, "--resume", "--json").said)["best_epoch"] == whole.best_epoch
    other = call(folder, "--resume", "--dim", "9", "--epochs", "5")
    assert other.code == 2
    assert "finished run of another training: dim is 3 there and 9 here; epochs is 4 there and 5 here" in other.said
    assert "--start-from" in other.said
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert "give one of them" in call(folder, "--resume", "--force").said


def test_force_begins_anew(call, whole: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        at_epoch(2, lambda: signal.raise_signal(signal.SIGTERM), patch)
        call(tmp_path / "run", "--seed", "7")
    refused = call(tmp_path / "run", "--resume").said
    assert "seed is 7 there and 0 here" in refused
    assert "going on" not in refused  # said once the settings are known to be the checkpoint's
    next((tmp_path / "run" / "checkpoint").glob("state.*")).write_bytes(b"damaged")
    damaged = call(tmp_path / "run", "--resume", "--seed", "7")
    assert damaged.code == 1
    assert "safetensors is damaged: expected" in damaged.said
    assert call(tmp_path / "run", "--force").code == 0
    assert_same(tmp_path / "run", whole)


def test_a_run_that_is_replaced_stays_until_the_new_one_is_whole(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(tmp_path / "run", "--seed", "7")
    with monkeypatch.context() as patch:
        at_epoch(2, lambda: signal.raise_signal(signal.SIGTERM), patch)
        call(tmp_path / "run", "--force")
    assert sp.load_run(tmp_path / "run").settings.seed == 7
    assert call(tmp_path / "run", "--resume").code == 0
    assert sp.load_run(tmp_path / "run").settings.seed == 0


@pytest.mark.parametrize("at", ["checkpoint", "run"])
def test_a_full_disk_is_one_line_and_what_was_trained_is_kept(
    at: str, call, whole: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sealed_folder.write_atomic

    def full(path: Path, data: bytes) -> Path:
        if ("checkpoint" in path.parts) == (at == "checkpoint"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(sealed_folder, "write_atomic", full)
        done = call(tmp_path / "run", "--checkpoint-every", "3")
    if at == "checkpoint":  # a warning, and the run is there
        assert done.code == 0
        assert "No space left on device; training continues" in " ".join(done.said.split())
    else:
        assert done.code == 1
        assert f"error: cannot write the run to {tmp_path / 'run'}: No space left on device" in done.said
        monkeypatch.setattr(loop, "_epoch", lambda *_: pytest.fail("trained again"))
        assert "going on after epoch 4" in call(tmp_path / "run", "--resume").said
    assert_same(tmp_path / "run", whole)


def test_short_memory_is_one_line(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> None:
        torch.empty(2**52)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_epoch", greedy)
        short = call(tmp_path / "run")
    assert (short.code, "error: memory ran out while training; try a smaller batch_size" in short.said) == (1, True)
    monkeypatch.setattr("staypositive.cli.app", greedy)
    short = call(tmp_path / "run")
    assert (short.code, "error: memory ran out; " in short.said) == (1, True)


def test_a_run_time_error_that_is_a_bug_is_shown_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("staypositive.cli.app", wrong)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main()


@pytest.mark.slow
def test_killed_processes_go_on_to_the_same_weights(tmp_path: Path) -> None:
    """A small version of the measurement, with real kills: one at any instant, one in a save."""
    command = [
        sys.executable,
        "-m",
        "experiments",
        "kills",
        "--kills",
        "2",
        "--cases",
        "1",
        "--results",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 trainings that were killed ended with the weights of one that never stopped" in done.stdout
    assert [row["value"] for row in read_results(tmp_path) if row["metric"] == "identical"] == ["2"]
