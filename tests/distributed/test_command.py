"""`staypositive train` as torchrun starts it, in a world of one process: the tests' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import staypositive as sp
from launching import with_environment
from staypositive.cli import app
from staypositive.distributed import is_first, is_launched
from staypositive.run.folder import RUN

TRAIN = ["train", "geo", "--model", "distmult", "--dim", "4", "--epochs", "1", "--batch-size", "4096", "--json"]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with with_environment(TORCHELASTIC_RUN_ID="tests"):
        yield


def test_who_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_launched()
    assert is_first()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert is_launched()
    assert not is_first()


@pytest.mark.usefixtures("launched")
def test_a_run_comes_out_as_any_other() -> None:
    done = CliRunner().invoke(app, [*TRAIN, "--device", "cpu"], catch_exceptions=False)
    said = json.loads(done.stdout)
    assert said["provenance"]["engine"] == "ShardedEngine"
    assert sp.load_run("runs/geo").metrics == said["metrics"]
    assert {"ranking", "classification"} == said["metrics"]["test"].keys()
    assert not Path("runs/geo.shards").exists()


@pytest.mark.usefixtures("launched")
def test_a_run_too_large_for_one_process_stays_in_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.distributed.fitting.free_memory", lambda: 0.0)
    done = CliRunner().invoke(app, [*TRAIN, "--device", "cpu"], catch_exceptions=False)
    said = json.loads(done.stdout)
    assert said["shards"] == "runs/geo.shards"
    assert said["run"] == "runs/geo"
    assert json.loads(RUN.load(Path("runs/geo"))["metrics.json"]) == said["metrics"]
    assert said["metrics"]["test"]["ranking"]["filtered"]["realistic"]["both"]["mrr"] > 0
    assert Path("runs/geo.shards/epoch-000001/manifest.json").exists()


@pytest.mark.usefixtures("launched")
def test_a_start_from_a_run_is_refused() -> None:
    done = CliRunner().invoke(app, [*TRAIN, "--start-from", "geo-demo", "--device", "cpu"])
    assert "--start-from is for training in one process" in str(done.exception)
