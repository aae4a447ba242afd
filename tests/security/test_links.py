"""Links in folders that somebody else made: nothing is written through one, and nothing behind one is removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

import staypositive as sp
from launching import world_of_one
from staypositive.cli import main
from staypositive.errors import InputError, RunError
from staypositive.files import LOCK, locked, open_plain, write_atomic
from staypositive.graph.on_disk.graph import MARK, new_folder
from staypositive.inference import PartialDiscovery
from staypositive.interop.trackers import make_tracker
from staypositive.run import make_settings
from staypositive.run.checkpoint import CHECKPOINT
from staypositive.sharded import fit_sharded, remove_checkpoints
from staypositive.tuning.search import alone

SMALL = {"model": "distmult", "dim": 2, "epochs": 2, "validate_every": 1, "device": "cpu"}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A file of somebody's, outside of every folder that is written to."""
    path = tmp_path / "outside" / "thesis"
    path.parent.mkdir()
    path.write_text("years of work")
    return path


@pytest.fixture
def saved(planted_run: sp.Run, tmp_path: Path) -> Path:
    return planted_run.save(tmp_path / "run")


def command(*words: str | Path) -> int:
    """Run a command as a shell would; return its exit code."""
    with patch.object(sys, "argv", ["staypositive", *map(str, words)]), pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def as_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def as_second_name(path: Path, target: Path) -> None:
    os.link(target, path)


@pytest.mark.parametrize("make", [as_link, as_second_name])
def test_a_lock_is_not_written_through_a_link(
    make: Callable[[Path, Path], None], saved: Path, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(saved / LOCK, theirs)
    assert command("evaluate", saved, "--quiet") == 1
    assert theirs.read_text(encoding="utf-8") == "years of work"
    assert f"error: cannot write to {saved / LOCK}: is " in capsys.readouterr().err


def test_a_lock_that_leads_nowhere_makes_nothing(saved: Path, theirs: Path) -> None:
    (saved / LOCK).symlink_to(theirs.parent / "new")
    with pytest.raises(RunError, match="is a link, and nothing is written through links"), locked(saved):
        pass
    assert not (theirs.parent / "new").exists()


def test_a_lock_that_is_a_pipe_is_refused_at_once(saved: Path) -> None:
    os.mkfifo(saved / LOCK)
    with pytest.raises(RunError, match="is not a plain file"), locked(saved):
        pass


def test_a_part_that_is_a_link_is_replaced_by_a_save(planted_run: sp.Run, saved: Path, theirs: Path) -> None:
    for path in [*saved.glob("metrics.*"), saved / "run.json"]:
        path.unlink()
        path.symlink_to(theirs)
    planted_run.save(saved)
    assert theirs.read_text(encoding="utf-8") == "years of work"
    assert not [path for path in saved.iterdir() if path.is_symlink()]
    assert sp.load_run(saved).metrics == planted_run.metrics


def test_an_output_that_is_a_link_is_replaced(tmp_path: Path, theirs: Path) -> None:
    (tmp_path / "out.tsv").symlink_to(theirs)
    write_atomic(tmp_path / "out.tsv", "new")
    assert (tmp_path / "out.tsv").read_text() == "new"
    assert not (tmp_path / "out.tsv").is_symlink()
    assert theirs.read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("flag", ["--force", "--resume", "--quiet"])
def test_the_checkpoint_of_another_run_is_not_reached_through_a_link(
    flag: str, planted: sp.KnowledgeGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "checkpoint"
    sp.fit(planted, **SMALL, checkpoint=other)
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(other)
    data = sp.write_folder(planted, tmp_path / "data")
    flags = ["--model=distmult", "--dim=2", "--epochs=2", "--device=cpu", f"--out={tmp_path / 'run'}"]
    assert command("train", data, *flags, flag) == 1
    said = capsys.readouterr().err
    assert f"error: {tmp_path / 'run' / 'checkpoint'} is a link, and nothing is written to or removed from" in said
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before
    with pytest.raises(RunError, match="is a link"):
        CHECKPOINT.clear(tmp_path / "run" / "checkpoint")
    assert CHECKPOINT.is_in(other)


def test_a_run_by_a_linked_name_is_measured_where_it_lies(saved: Path, tmp_path: Path) -> None:
    """Whoever names a run by a link means the run."""
    (tmp_path / "latest").symlink_to(saved)
    sp.load_run(tmp_path / "latest").save_results(tmp_path / "latest")
    assert sp.load_run(saved)


def test_shards_of_another_training_are_not_reached_through_a_link(
    planted: sp.KnowledgeGraph, tmp_path: Path, theirs: Path
) -> None:
    settings = make_settings(**SMALL)
    with world_of_one() as world:
        fit_sharded(planted, settings, world, checkpoints=tmp_path / "other.shards")
        before = sorted(tmp_path.glob("other.shards/*/*"))
        (tmp_path / "run.shards").symlink_to(tmp_path / "other.shards")
        for fresh in (True, False):
            with pytest.raises(RunError, match=r"run\.shards is a link"):
                fit_sharded(planted, settings, world, checkpoints=tmp_path / "run.shards", fresh=fresh)
        with pytest.raises(RunError, match=r"run\.shards is a link"):
            remove_checkpoints(tmp_path / "run.shards")
        (tmp_path / "mine.shards").mkdir()
        (tmp_path / "mine.shards" / "epoch-000001").symlink_to(tmp_path / "other.shards" / "epoch-000001")
        with pytest.raises(RunError, match="epoch-000001 is a link"):
            fit_sharded(planted, settings, world, checkpoints=tmp_path / "mine.shards")
        remove_checkpoints(tmp_path / "mine.shards")
        assert sorted(tmp_path.glob("other.shards/*/*")) == before
        (tmp_path / "own.shards" / "epoch-000001").mkdir(parents=True)
        shard = tmp_path / "own.shards" / "epoch-000001" / "shard-00000.safetensors"
        shard.symlink_to(theirs)
        fit_sharded(planted, settings, world, checkpoints=tmp_path / "own.shards")
    assert theirs.read_text(encoding="utf-8") == "years of work"
    assert not shard.is_symlink()


def test_a_tracker_does_not_write_through_a_link(planted: sp.KnowledgeGraph, tmp_path: Path, theirs: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to(theirs)
    with pytest.raises(OSError, match="is a link"):
        sp.fit(planted, **SMALL, callbacks=[make_tracker(f"jsonl:{tmp_path / 'log.jsonl'}")])
    assert theirs.read_text(encoding="utf-8") == "years of work"


def test_a_search_keeps_off_linked_and_foreign_files(tmp_path: Path, theirs: Path) -> None:
    folder = tmp_path / "new.tsv.partial"
    folder.symlink_to(theirs.parent)
    with pytest.raises(InputError, match="is a link"):
        PartialDiscovery(folder, {"top": 1})
    folder.unlink()
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "7.bin").symlink_to(theirs)
    for said in ('{"top": 2}', "[" * 100_000, '{"top": 1}'):
        (folder / "asked.json").write_text(said)
        (folder / "3.bin").write_text("nonsense\n")
        assert PartialDiscovery(folder, {"top": 1}).found == {}
    PartialDiscovery(folder, {"top": 1}).remove()
    assert sorted(path.name for path in folder.iterdir()) == ["7.bin", "notes.txt"]
    assert theirs.read_text(encoding="utf-8") == "years of work"


def test_an_ingestion_neither_fills_nor_replaces_a_linked_folder(tmp_path: Path, theirs: Path) -> None:
    (theirs.parent / MARK).touch()
    for name in ("graph", "graph.part"):
        (tmp_path / name).symlink_to(theirs.parent)
        with pytest.raises(InputError, match=f"{name} is a link"), new_folder(tmp_path / "graph", force=True):
            pytest.fail("begun")
        (tmp_path / name).unlink()
    assert sorted(path.name for path in theirs.parent.iterdir()) == [MARK, "thesis"]


@pytest.mark.parametrize("name", ["study.db", "study.db.lock"])
def test_a_study_is_not_kept_through_a_link(name: str, tmp_path: Path, theirs: Path) -> None:
    (tmp_path / name).symlink_to(theirs.parent / "new")
    with pytest.raises(InputError, match=f"{name} is a link"), alone(f"sqlite:///{tmp_path / 'study.db'}"):
        pytest.fail("begun")
    assert not (theirs.parent / "new").exists()


def test_a_plot_that_is_a_link_is_replaced(tmp_path: Path, theirs: Path) -> None:
    pytest.importorskip("matplotlib")
    from experiments.plots import plot_figures

    (tmp_path / "theorem.png").symlink_to(theirs)
    times = {"theorem_seconds": 1.0, "enumeration_seconds": 2.0, "entities": 10}
    assert plot_figures([times], tmp_path) == [tmp_path / "theorem.png"]
    assert (tmp_path / "theorem.png").read_bytes().startswith(b"\x89PNG")
    assert theirs.read_text(encoding="utf-8") == "years of work"


def test_what_is_written_in_place_is_a_plain_file_with_one_name(tmp_path: Path) -> None:
    handle = open_plain(tmp_path / "new", os.O_WRONLY | os.O_CREAT)
    os.close(handle)
    os.link(tmp_path / "new", tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("second", "not a plain file with one name"), ("pipe", "not a plain file|No such device")):
        with pytest.raises(OSError, match=said):
            open_plain(tmp_path / name, os.O_WRONLY)
