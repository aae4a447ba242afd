"""`staypositive ingest`, and training from what it made, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import staypositive as sp
from staypositive.cli import app
from staypositive.errors import SettingError

pytest.importorskip("numba", reason="streamed graphs need numba")


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_what_cannot_be_held_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"a{i % 5}\tr\tb{i % 7}\n" for i in range(35)), "utf-8")
    done = CliRunner().invoke(app, ["ingest", str(path), "--out", str(tmp_path / "g"), "--hold-out", "1000"])
    assert done.exit_code == 0
    assert done.stderr == ""  # no terminal, and so no bar, nor the blank line that it would leave
    assert all(done.stdout.splitlines())
    assert "2,000 triples were to be held out, and" in done.stdout
    counts = sp.load_graph(tmp_path / "g").counts()
    assert counts["train"] >= 17
    assert counts["valid"] + counts["test"] > 5


def test_ingest_then_train(tmp_path: Path) -> None:
    for shard in range(2):
        rows = np.random.default_rng(shard).integers(50, size=(400, 2)).tolist()
        (tmp_path / f"{shard}.tsv").write_text("".join(f"e{h}\tr{t % 3}\te{t}\n" for h, t in rows), "utf-8")
    out = tmp_path / "graph"
    text = call("ingest", tmp_path / "*.tsv", "--out", out, "--memory", "128MB", "--hold-out", "9", "--name", "mine")
    assert "mine: 50 entities, 3 relations" in text
    assert "read 2 shards" in text
    said = json.loads(call("ingest", tmp_path / "*.tsv", "--out", out, "--force", "--json", "--quiet"))
    assert said["counts"]["entities"] == 50
    assert said["counts"]["train"] + said["counts"]["copies_dropped"] == 800
    text = call("train", out, "--out", tmp_path / "run", "--dim", 4, "--epochs", 2, "--threads", 1, "--device", "cpu")
    assert "facts were streamed from disk and not ranked" in text
    assert "next: staypositive predict" in text


def test_numbers_without_a_triple_are_told_of(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0, 0, 9]]))
    text = call("ingest", tmp_path / "a.npy", "--out", tmp_path / "graph")
    assert "8 entities and 0 relations have no triple" in text


def test_a_size_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="expected a size such as 512MB or 2GB, got 'lots'"):
        call("ingest", tmp_path, "--out", tmp_path / "graph", "--memory", "lots")
