"""Small inputs that claim to be large: a clear error instead of a full memory, and nothing outside what was given."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staypositive as sp
from staypositive.errors import DataError, DownloadError, RunError, SettingError
from staypositive.files import sha256_bytes
from staypositive.graph import read_triples
from staypositive.graph.encoded import read_encoded, write_encoded
from staypositive.graph.readers import opening, sparql, text
from staypositive.run.folder import _json


@contextmanager
def little_memory(room: int = 2**30) -> Iterator[None]:
    """Let the process grow by so much and no more: a bomb that goes off is a `MemoryError` here."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


# -- packed files -----------------------------------------------------------------------------------------------


def gzipped(piece: bytes, times: int) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=9) as packed:
        for _ in range(times):
            packed.write(piece)
    return stream.getvalue()


def test_a_gzip_bomb_of_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MOST_UNPACKED", 2**22)
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzipped(b"a\tr\tb\n" * 10_000, 200))
    with pytest.raises(DataError, match=r"bomb\.tsv\.gz: it unpacks to more than 200 times its [\d,]+ bytes"):
        read_triples(path)


def test_a_gzip_bomb_of_one_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MOST_LINE", 2**22)
    monkeypatch.setattr(text, "PIECE", 2**20)
    path = tmp_path / "bomb.tsv"
    path.write_bytes(gzipped(b"a" * 2**20, 10))
    with pytest.raises(DataError, match=r"bomb\.tsv:1: a line of more than 4,194,304 bytes"):
        read_triples(path)


@pytest.mark.skipif(not find_spec("zstandard"), reason="needs zstandard")
def test_a_zstd_bomb_is_refused(tmp_path: Path) -> None:
    import zstandard

    path = tmp_path / "bomb.tsv.zst"
    stream = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as packed:
        for _ in range(600):
            packed.write(b"\n" * 2**20)
    path.write_bytes(stream.getvalue())
    assert path.stat().st_size < 2**17
    with little_memory(), pytest.raises(DataError, match="it unpacks to more than 200 times"):
        read_triples(path)


def test_files_that_pack_well_are_read(tmp_path: Path) -> None:
    path = tmp_path / "good.tsv.gz"
    path.write_bytes(gzipped(b"a\tr\tb\n" * 1000, 100))
    assert len(read_triples(path)) == 100_000


@pytest.mark.skipif(not find_spec("pyarrow"), reason="needs pyarrow")
def test_a_parquet_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(opening, "MOST_UNPACKED", 2**22)
    path = tmp_path / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, dtype=np.int8)), pa.array(["a"]))
    pq.write_table(pa.table({"head": column, "relation": column, "tail": column}), path)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"bomb\.parquet: it unpacks to more than 200 times"):
        read_triples(path)


def test_an_encoded_graph_is_not_packed(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    write_encoded(path, planted)
    assert read_encoded(path).fingerprint == planted.fingerprint
    with np.load(path) as arrays:
        np.savez_compressed(tmp_path / "packed.npz", **dict(arrays))
    with pytest.raises(DataError, match=r"packed\.npz: not an encoded graph: its arrays are packed"):
        read_encoded(tmp_path / "packed.npz")


@linux
def test_an_encoded_graph_that_claims_a_huge_array_is_refused(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    write_encoded(path, planted)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i4", "fortran_order": False, "shape": (10**12, 3)})
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "huge.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, header.getvalue() + b"\0" * 12 if name == "train.npy" else old.read(name))
    with little_memory(), pytest.raises(DataError, match=r"huge\.npz: not an encoded graph"):
        read_encoded(tmp_path / "huge.npz")


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "", 7, None])
def test_the_name_of_an_encoded_graph_is_no_path(planted: sp.KnowledgeGraph, tmp_path: Path, name: Any) -> None:
    about = {
        "name": name,
        "entities": planted.entities.labels,
        "relations": planted.relations.labels,
        "sources": [],
        "notes": [],
    }
    written = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", about=written, **planted.arrays())
    with pytest.raises(DataError, match=r"x\.npz: not an encoded graph: .*name"):
        read_encoded(tmp_path / "x.npz")


def test_an_endless_answer_of_an_endpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            assert size >= 0, "all of it was asked for"
            return b" " * size

    monkeypatch.setattr(sparql, "MOST_BYTES", 2**20)
    monkeypatch.setattr(sparql.urllib.request, "urlopen", lambda *_, **__: Endless())
    with pytest.raises(DownloadError, match=r"http://x/q answered with more than 1,048,576 bytes"):
        sp.load_graph(sp.Sparql("http://x/q", "SELECT ?s ?p ?o { ?s ?p ?o }"))


# -- settings ---------------------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("model", ["distmult", "tucker", "ntn", "rescal"])
@pytest.mark.parametrize("dim", [10**7, 10**12, 10**30, 10**400])
def test_a_dim_that_fits_nowhere_is_refused_at_once(planted: sp.KnowledgeGraph, model: str, dim: int) -> None:
    if (model, dim) == ("distmult", 10**7):
        return  # 1.6 GB: fits
    with little_memory(), pytest.raises(SettingError, match=r"does not fit in memory; try a smaller dim"):
        sp.fit(planted, model=model, dim=dim, epochs=1)


# -- run folders ------------------------------------------------------------------------------------------------


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
    manifest["sha256"] = sha256_bytes(_json(manifest))
    (folder / "run.json").write_bytes(_json(manifest))


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
