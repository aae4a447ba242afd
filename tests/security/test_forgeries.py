"""Run folders that somebody made up, hashes put right: refused before they are believed."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

import staypositive as sp
from security.memory import linux, little_memory
from staypositive.errors import RunError
from staypositive.files import sha256_bytes, to_json


@pytest.fixture
def saved(planted_run: sp.Run, tmp_path: Path) -> Path:
    return planted_run.save(tmp_path / "run")


def forge(folder: Path, role: str, data: bytes) -> None:
    """Put other bytes in place of a part, with hashes that are right."""
    manifest = json.loads((folder / "run.json").read_text("utf-8"))
    manifest["files"][role] |= {"sha256": sha256_bytes(data), "bytes": len(data)}
    (folder / manifest["files"][role]["file"]).write_bytes(data)
    seal(folder, manifest)


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    manifest.pop("sha256", None)
    manifest["sha256"] = sha256_bytes(to_json(manifest))
    (folder / "run.json").write_bytes(to_json(manifest))


def part(folder: Path, role: str) -> tuple[Path, dict[str, Any]]:
    manifest = json.loads((folder / "run.json").read_text("utf-8"))
    return folder / manifest["files"][role]["file"], manifest


@linux
@pytest.mark.parametrize("shape", [[10**12, 8], [2**62, 2], [2**33], [0], [40, 8, 1]])
@pytest.mark.parametrize("role", ["weights.safetensors", "graph.safetensors"])
def test_tensors_that_claim_a_huge_shape_are_refused(saved: Path, role: str, shape: list[int]) -> None:
    path, _ = part(saved, role)
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    name = "entities" if role.startswith("weights") else "train"
    header[name]["shape"] = shape
    written = json.dumps(header).encode()
    forge(saved, role, struct.pack("<Q", len(written)) + written + data[8 + size :])
    with little_memory(), pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


@linux
@pytest.mark.parametrize(
    "change", [{"dim": 10**12}, {"n_entities": 10**12}, {"dim": 10**400}, {"n_relations": 2**62}]
)
def test_a_model_that_claims_to_be_huge_is_refused(saved: Path, change: dict[str, int]) -> None:
    path, _ = part(saved, "settings.json")
    settings = json.loads(path.read_text("utf-8"))
    settings["model"] |= change
    forge(saved, "settings.json", json.dumps(settings).encode())
    with little_memory(), pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


@linux
def test_a_header_that_claims_a_huge_length_is_refused(saved: Path) -> None:
    forge(saved, "weights.safetensors", struct.pack("<Q", 2**62) + b"{}")
    with little_memory(), pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b'{"a":' * 200_000, b"9" * 10_000, b"NaN", b"1e999", b'"\\ud800"', b"\xff"]
)
@pytest.mark.parametrize("role", ["settings.json", "labels.json", "history.json", "metrics.json", "provenance.json"])
def test_strange_json_is_refused(saved: Path, role: str, data: bytes) -> None:
    forge(saved, role, data)
    with pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


def test_a_strange_manifest_is_refused(saved: Path) -> None:
    for data in (
        b"[" * 200_000,
        b'{"format": 1e999, "files": {}}',
        b'{"format": 1, "files": 3}',
        b"\xff",
        b"",
        b" " * 2**21,
    ):
        (saved / "run.json").write_bytes(data)
        with pytest.raises(RunError, match=r"run\.json is damaged"):
            sp.load_run(saved)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/b", "..", ".", "\0", "", 7, None])
def test_a_run_names_no_file_outside_itself(saved: Path, name: Any) -> None:
    path, manifest = part(saved, "labels.json")
    (saved.parent / "outside").write_bytes(path.read_bytes())
    manifest["files"]["labels.json"]["file"] = name
    seal(saved, manifest)
    with pytest.raises(RunError, match=str(saved)):
        sp.load_run(saved)


def test_a_pipe_or_a_device_in_a_run_is_refused_and_a_link_is_hashed(saved: Path) -> None:
    path, _ = part(saved, "labels.json")
    data = path.read_bytes()
    (saved.parent / "elsewhere").write_bytes(data)
    path.unlink()
    path.symlink_to(saved.parent / "elsewhere")
    assert sp.load_run(saved)
    (saved.parent / "elsewhere").write_bytes(data[:-2] + b" \n")
    with pytest.raises(RunError, match="is damaged: expected"):
        sp.load_run(saved)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(RunError, match="is not a plain file"):
        sp.load_run(saved)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match="is not a plain file"):
        sp.load_run(saved)


def test_a_part_that_grew_is_not_read(saved: Path) -> None:
    path, _ = part(saved, "labels.json")
    with path.open("r+b") as stream:
        stream.truncate(2**40)  # a file with a hole
    with pytest.raises(RunError, match=r"is damaged: it has 1099511627776 bytes"):
        sp.load_run(saved)


@pytest.mark.parametrize("label", [7, None, ["a"], " ", "\ud800"])
def test_labels_of_a_run_are_text(saved: Path, label: Any) -> None:
    path, _ = part(saved, "labels.json")
    labels = json.loads(path.read_text("utf-8"))
    labels["entities"][0] = label
    forge(saved, "labels.json", json.dumps(labels).encode())
    with pytest.raises(RunError, match="not a readable run"):
        sp.load_run(saved)


@pytest.mark.parametrize(
    "calibrator",
    [
        {"name": "platt", "base_prior": 0.5, "slope": "1", "offset": 0.0},
        {"name": "platt", "base_prior": 2.0, "slope": 1.0, "offset": 0.0},
        {"name": "temperature", "base_prior": 0.5, "temperature": 0.0},
        {"name": "isotonic", "base_prior": 0.5, "knots": [0.0, 1.0], "probabilities": [0.1, 1.5]},
        {"name": "isotonic", "base_prior": 0.5, "knots": [0.0, 1.0], "probabilities": [0.1]},
        {"name": "posterior", "base_prior": 0.5, "statistic": "x",
        "knots": [0.0], "pooled": [0.0], "relations": [], "curves": []},
        {"name": "posterior", "base_prior": 0.5, "statistic": "tail",
        "knots": [0.0], "pooled": [0.0], "relations": [0], "curves": []},
    ],
)  # fmt: skip
def test_a_calibrator_that_gives_no_probability_is_refused(saved: Path, calibrator: dict[str, Any]) -> None:
    data = json.dumps(calibrator).encode()
    _, manifest = part(saved, "labels.json")
    (saved / "calibrator.x.json").write_bytes(data)
    manifest["files"]["calibrator.json"] = {
        "file": "calibrator.x.json",
        "sha256": sha256_bytes(data),
        "bytes": len(data),
    }
    seal(saved, manifest)
    with pytest.raises(RunError, match=r"calibrator|Error"):
        sp.load_run(saved)


def test_weights_that_are_no_numbers_are_refused(planted_run: sp.Run, saved: Path) -> None:
    from safetensors.torch import save

    state = {name: weight.clone() for name, weight in planted_run.model.state_dict().items()}
    state["entities"][3, 2] = float("nan")
    forge(saved, "weights.safetensors", save(state))
    with pytest.raises(RunError, match="the weights of entities are not finite numbers"):
        sp.load_run(saved)
