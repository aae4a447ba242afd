"""A run on disk: whole, sealed_folder, refused when damaged, never half replaced."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest
import torch

import staypositive as sp
from staypositive import files, sealed_folder
from staypositive.errors import RunError
from staypositive.run import folder as folder_module


@pytest.fixture
def saved(planted_run: sp.Run, tmp_path: Path) -> Path:
    planted_run.calibrate("isotonic")
    planted_run.evaluate("test")
    return planted_run.save(tmp_path / "run")


def test_everything_survives(planted_run: sp.Run, saved: Path) -> None:
    twin = sp.load_run(saved)
    for name, weight in planted_run.model.state_dict().items():
        assert torch.equal(weight, twin.model.state_dict()[name])
    assert twin.graph.fingerprint == planted_run.graph.fingerprint
    assert twin.graph.sources == planted_run.graph.sources
    assert twin.settings == planted_run.settings
    assert twin.history == planted_run.history
    assert (twin.best_epoch, twin.calibrator) == (planted_run.best_epoch, planted_run.calibrator)
    assert twin.metrics == planted_run.metrics
    assert twin.provenance == planted_run.provenance
    pd.testing.assert_frame_equal(twin.predict("p1", "rival"), planted_run.predict("p1", "rival"))


def test_provenance_is_complete(saved: Path) -> None:
    origin = sp.load_run(saved).provenance
    assert origin["version"] == sp.__version__
    assert len(origin["graph_sha256"]) == 64
    assert {"commit", "device", "threads", "torch", "python", "platform", "started", "sources"} <= set(origin)


def test_no_pickle_and_one_manifest(saved: Path) -> None:
    names = sorted(path.name for path in saved.iterdir())
    assert {name.rsplit(".", 1)[1] for name in names} == {"json", "safetensors"}
    manifest = json.loads((saved / "run.json").read_text("utf-8"))
    assert sorted(entry["file"] for entry in manifest["files"].values()) == [n for n in names if n != "run.json"]
    for entry in manifest["files"].values():
        assert files.sha256_file(saved / entry["file"]) == entry["sha256"]


def test_saving_again_replaces_and_sweeps(planted_run: sp.Run, saved: Path) -> None:
    before = {path.name for path in saved.iterdir()}
    planted_run.calibrate("platt")
    planted_run.save(saved)
    after = {path.name for path in saved.iterdir()}
    assert sp.load_run(saved).calibrator == planted_run.calibrator
    assert len(after) == len(before)
    assert {n for n in after if n.startswith("weights")} == {n for n in before if n.startswith("weights")}


@pytest.mark.parametrize("fails_at", range(7))  # weights, history, metrics, calibrator, posterior, manifest change
def test_a_save_cut_short_leaves_the_old_run(
    planted_run: sp.Run, saved: Path, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file the disk fills up at, the folder still reads as before."""
    old = sp.load_run(saved)
    changed = sp.load_run(saved)
    changed.metrics["note"] = {"changed": True}
    with torch.no_grad():
        changed.model.entities.add_(1)
    changed.calibrate("temperature")
    changed.history = changed.history[:1]
    writes = 0

    def flaky(path: Path, data: bytes | str) -> Path:
        nonlocal writes
        writes += 1
        if writes > fails_at:
            raise OSError(28, "No space left on device")
        return files.write_atomic(path, data)

    monkeypatch.setattr(sealed_folder, "write_atomic", flaky)
    with pytest.raises(RunError, match="No space left") if fails_at < 6 else contextlib.nullcontext():
        changed.save(saved)
    now = sp.load_run(saved)
    if fails_at < 6:
        assert (now.metrics, now.calibrator, now.history) == (old.metrics, old.calibrator, old.history)
        assert torch.equal(now.model.entities, old.model.entities)
    else:
        assert now.metrics["note"] == {"changed": True}
        assert torch.equal(now.model.entities, changed.model.entities)


@pytest.mark.parametrize(
    "role", ["weights", "graph", "labels", "settings", "history", "metrics", "provenance", "calibrator"]
)
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damage_is_found_and_named(saved: Path, role: str, damage: str) -> None:
    path = next(saved.glob(f"{role}.*"))
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    with pytest.raises(RunError, match=path.name):
        sp.load_run(saved)


def sign(saved: Path, manifest: dict) -> None:
    """Write a manifest whose own hash is right."""
    manifest.pop("sha256", None)
    manifest["sha256"] = files.sha256_bytes(files.to_json(manifest))
    (saved / "run.json").write_text(json.dumps(manifest), "utf-8")


def rewrite(saved: Path, role: str, change) -> None:
    """Alter a file and its hashes, as a thorough forger would."""
    manifest = json.loads((saved / "run.json").read_text("utf-8"))
    entry = manifest["files"][role]
    content = json.loads((saved / entry["file"]).read_text("utf-8"))
    change(content)
    data = json.dumps(content).encode()
    (saved / entry["file"]).write_bytes(data)
    entry["sha256"] = files.sha256_bytes(data)
    sign(saved, manifest)


def test_files_that_hash_but_do_not_fit_are_refused(saved: Path) -> None:
    rewrite(saved, "settings.json", lambda content: content["model"].update(dim=3))
    with pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


def test_a_missing_part_is_refused(saved: Path) -> None:
    manifest = json.loads((saved / "run.json").read_text("utf-8"))
    del manifest["files"]["labels.json"]
    sign(saved, manifest)
    with pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


def test_a_manifest_cannot_point_outside(saved: Path) -> None:
    manifest = json.loads((saved / "run.json").read_text("utf-8"))
    manifest["files"]["labels.json"]["file"] = "../labels.json"
    sign(saved, manifest)
    with pytest.raises(RunError, match="outside"):
        sp.load_run(saved)


def test_newer_formats_and_damaged_manifests(saved: Path, tmp_path: Path) -> None:
    manifest = json.loads((saved / "run.json").read_text("utf-8"))
    (saved / "run.json").write_text(json.dumps({**manifest, "format": 99, "writer": "9.9"}), "utf-8")
    with pytest.raises(RunError, match=r"format 99, written by staypositive 9\.9.*Upgrade"):
        sp.load_run(saved)
    (saved / "run.json").write_text("{", "utf-8")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        sp.load_run(saved)
    with pytest.raises(RunError, match="no run in"):
        sp.load_run(tmp_path / "nowhere")


def test_other_peoples_files_are_left_alone(planted_run: sp.Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("years of work", "utf-8")
    with pytest.raises(RunError, match="not a run's"):
        planted_run.save(tmp_path)
    assert (tmp_path / "thesis.docx").read_text("utf-8") == "years of work"
    with pytest.raises(RunError, match="is a file"):
        planted_run.save(tmp_path / "thesis.docx")


def test_an_altered_manifest_is_refused(saved: Path) -> None:
    text = (saved / "run.json").read_text("utf-8")
    (saved / "run.json").write_text(text.replace('"calibrator.json"', '"calibratos.json"'), "utf-8")
    with pytest.raises(RunError, match="do not have the hash"):
        sp.load_run(saved)
    for change in ({"calibratos.json": {}}, {"weights.safetensors": "x"}):
        manifest = json.loads(text)
        manifest["files"] |= change
        sign(saved, manifest)
        with pytest.raises(RunError, match="names files that no run has"):
            sp.load_run(saved)


def test_a_save_sweeps_only_its_own_files(planted_run: sp.Run, saved: Path) -> None:
    theirs = ["my.notes.txt", "paper.v2.pdf", "data.v1.tsv.gz", ".hidden.part", "weights.final.safetensors"]
    for name in theirs:
        (saved / name).write_text("mine", "utf-8")
    planted_run.calibrate("temperature")
    planted_run.save(saved)
    assert all((saved / name).read_text("utf-8") == "mine" for name in theirs)
    for name in theirs:  # nor is a folder that holds them taken for a run's
        other = saved.parent / f"with-{name}"
        other.mkdir()
        (other / name).write_text("mine", "utf-8")
        with pytest.raises(RunError, match="not a run's"):
            planted_run.save(other)


def test_an_unwritable_folder_is_found_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(RunError, match="cannot write to"):
        folder_module.require_writable(tmp_path / "file" / "run")
    folder_module.require_writable(tmp_path / "new" / "run")
    assert list((tmp_path / "new" / "run").iterdir()) == []


def test_recalibrating_drops_what_was_measured_before(planted_run: sp.Run) -> None:
    planted_run.calibrate("platt")
    planted_run.evaluate("valid")
    planted_run.calibrate("isotonic")
    assert "classification" not in planted_run.metrics["valid"]
    assert "ranking" in planted_run.metrics["valid"]


def test_a_reader_that_a_save_overtakes_reads_the_new_run(
    planted_run: sp.Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reads = sealed_folder.FolderKind._read_checked, 0

    def overtaken(kind: sealed_folder.FolderKind, *given: object) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 2:
            planted_run.calibrate("temperature")
            planted_run.save(saved)
        return real(kind, *given)

    planted_run.calibrate("platt")
    planted_run.save(saved)
    monkeypatch.setattr(sealed_folder.FolderKind, "_read_checked", overtaken)
    assert sp.load_run(saved).calibrator.name == "temperature"
    assert reads > 2 + 8


def test_results_are_kept_where_a_run_was_saved(tmp_path: Path, planted_run: sp.Run) -> None:
    run = dataclasses.replace(planted_run)
    run.save(tmp_path / "run")
    run.metrics = {"test": {"said": {"later": 1.0}}}
    run.save_results(tmp_path / "run")
    assert sp.load_run(tmp_path / "run").metrics == run.metrics
