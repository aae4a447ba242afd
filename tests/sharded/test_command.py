"""`staypositive train` as torchrun starts it, in a world of one process: the tests' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from launching import with_environment
from staypositive.cli import app
from staypositive.errors import SettingError
from staypositive.run.folder import RUN
from staypositive.sharded import fit_sharded, is_first, is_launched
from staypositive.training import World

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
    done = CliRunner().invoke(app, [*TRAIN, "--device", "cpu", "--calibrate", "none"], catch_exceptions=False)
    said = json.loads(done.stdout)
    assert said["provenance"]["engine"] == "sharded"
    assert sp.load_run("runs/geo").metrics == said["metrics"]
    assert {"ranking", "classification"} == said["metrics"]["test"].keys()
    assert not Path("runs/geo.shards").exists()


@pytest.mark.usefixtures("launched")
def test_a_run_too_large_for_one_process_stays_in_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.sharded.fitting.free_memory", lambda: 0.0)
    done = CliRunner().invoke(app, [*TRAIN, "--device", "cpu"], catch_exceptions=False)
    said = json.loads(done.stdout)
    assert said["shards"] == "runs/geo.shards"
    assert said["run"] == "runs/geo"
    assert json.loads(RUN.load(Path("runs/geo"))["metrics.json"]) == said["metrics"]
    assert said["metrics"]["test"]["ranking"]["filtered"]["realistic"]["both"]["mrr"] > 0
    assert Path("runs/geo.shards/epoch-000001/manifest.json").exists()


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--start-from", "geo-demo"], "--start-from is for training in one process"),
        (["--checkpoint-every", "5"], "--checkpoint-every is for training in one process"),
        (["--engine", "fused"], "engine fused is for training in one process"),
        (["--slices", "3"], "slices applies to the models ntn and tucker"),
    ],
)
def test_flags_without_effect_are_refused(flags: list[str], said: str) -> None:
    done = CliRunner().invoke(app, [*TRAIN, *flags, "--device", "cpu"])
    assert said in str(done.exception)


def test_more_threads_than_there_are_here() -> None:
    settings = sp.make_settings(model="distmult", dim=2, threads=1_000_000)
    with pytest.raises(SettingError, match="threads must be between"):
        fit_sharded(planted_graph(), settings, cast(World, None))
