"""A training that is killed twice and goes on with fewer processes ends where one without accidents does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from launching import TESTS, torchrun, with_environment
from staypositive.cli import app
from staypositive.sharded.checkpoint import ShardedCheckpoint

FLAGS = ["--model", "distmult", "--dim", "8", "--epochs", "6", "--validate-every", "2", "--batch-size", "128"]


@pytest.fixture(scope="module")
def data(planted: sp.KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sp.write_folder(planted, tmp_path_factory.mktemp("data") / "planted")


def alone(data: Path, epochs: int) -> sp.Run:
    """The same training by one process, without accidents."""
    return sp.fit(
        sp.load_graph(data), model="distmult", dim=8, epochs=epochs, validate_every=2, batch_size=128, device="cpu",
        engine="reference",
    )  # fmt: skip


@pytest.fixture(scope="module")
def command(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a training by two processes that was killed in epoch 4 and, restarted, in epoch 6."""
    command = ["train", str(data), *FLAGS, "--device=cpu", f"--out={tmp_path_factory.mktemp('runs') / 'run'}", "-q"]
    died = torchrun(2, TESTS / "dying.py", *command, restarts=1, DYING="4,6")
    assert died.returncode != 0
    assert died.stderr.count("SIGKILL") or died.stderr.count("Signal 9"), died.stderr
    return command


def folder_of(command: list[str]) -> Path:
    return Path(command[-2].removeprefix("--out="))


def test_what_two_wrote_any_number_can_read(command: list[str], data: Path) -> None:
    shards = folder_of(command).with_name("run.shards")
    left = sorted(path.name for path in shards.iterdir())
    assert left == ["epoch-000002", "epoch-000004"]  # the second life began after the second epoch
    found, expected = ShardedCheckpoint.at(shards / left[0]), alone(data, 2).model.entities
    assert len(list(found.folder.glob("shard-*"))) == 2
    for size in (1, 2, 3):
        for rank in range(size):
            own = expected[rank::size]
            names, shape = ("model.entities", "best.entities"), expected.shape
            last, best = (torch.cat(list(found.rows(name, shape, rank, size, most=7))) for name in names)
            torch.testing.assert_close(last, own.detach(), rtol=1e-4, atol=1e-5)
            assert torch.equal(last, best)  # just validated


def test_a_killed_training_goes_on_with_another_number_of_processes(command: list[str], data: Path) -> None:
    folder, reference = folder_of(command), alone(data, 6)
    with with_environment(TORCHELASTIC_RUN_ID="tests"):
        done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert not folder.with_name("run.shards").exists()
    run = sp.load_run(folder)
    assert run.provenance["sharded"]["processes"] == 1
    assert [record.epoch for record in run.history] == [1, 2, 3, 4, 5, 6]
    for ours, theirs in zip(run.history, reference.history, strict=True):
        assert ours.terms == pytest.approx(theirs.terms, rel=1e-4)
        assert ours.validation == pytest.approx(theirs.validation, rel=1e-4)
    assert (run.model.entities - reference.model.entities).abs().max() < 1e-3
    assert run.metrics["test"]["ranking"]["queries"] == 2 * len(run.graph.test.facts)
    assert len(run.predict(head="p0", relation="ally")) == 10
