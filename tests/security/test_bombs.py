"""Small inputs that claim to be large: a clear error instead of a full memory, and nothing outside what was given."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staypositive as sp
from security.memory import linux, little_memory
from staypositive.errors import DataError, DownloadError, SettingError
from staypositive.graph import read_triples
from staypositive.graph.encoded import read_encoded, write_encoded
from staypositive.graph.readers import opening, sparql, text

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
    monkeypatch.setattr(opening, "MOST_LINE", 2**22)
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
        "fingerprint": planted.fingerprint,
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
    monkeypatch.setattr("urllib.request.OpenerDirector.open", lambda *_, **__: Endless())
    with pytest.raises(DownloadError, match=r"http://x/q answered with more than 1,048,576 bytes"):
        sp.load_graph(sp.Sparql("http://x/q", "SELECT ?s ?p ?o { ?s ?p ?o }"))


# -- settings ---------------------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("model", ["distmult", "tucker", "ntn", "rescal"])
@pytest.mark.parametrize("dim", [10**7, 2 * 10**9, 10**12, 10**30])
def test_a_dim_that_fits_nowhere_is_refused_at_once(planted: sp.KnowledgeGraph, model: str, dim: int) -> None:
    if (model, dim) == ("distmult", 10**7):
        return  # 1.6 GB: fits
    said = "does not fit in memory; try a smaller dim" if dim < 2**31 else "dim must be at most 2147483647"
    with little_memory(), pytest.raises(SettingError, match=said):
        sp.fit(planted, model=model, dim=dim, epochs=1)
