"""`staypositive export`, and how commands read RDF, Parquet and endpoints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from cli.test_cli import FAST, call, fail
from endpoints import Endpoint, bindings


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "geo"
    call("train", "geo", "--out", folder, *FAST, "--quiet", "--no-evaluate")
    return folder


def test_embeddings_and_graph(trained: Path, tmp_path: Path) -> None:
    text = call("export", trained, "--out", tmp_path / "vectors")
    assert f"embeddings written to {tmp_path / 'vectors'} as npy" in text.replace("\n", "")
    assert np.load(tmp_path / "vectors" / "entities.npy").shape[0] == 5198
    found = json.loads(call("export", trained, "--what", "graph", "--out", tmp_path / "graph", "--json"))
    assert found == {"what": "graph", "format": "tsv", "out": str(tmp_path / "graph")}
    assert sp.load_graph(tmp_path / "graph").fingerprint == sp.load_graph("geo").fingerprint


def test_a_format_of_something_else(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = fail(monkeypatch, capsys, "export", trained, "--out", tmp_path / "x", "--format", "onnx")
    assert (code, said) == (2, "error: embeddings can be exported as npy, parquet, word2vec, got 'onnx'\n")


def test_scorer(trained: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    call("export", trained, "--what", "scorer", "--out", tmp_path / "geo.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "geo.onnx", providers=["CPUExecutionProvider"])
    ids = np.array([[0, 0, 1]])
    (score,) = session.run(["score"], dict(zip(("head", "relation", "tail"), ids.T, strict=True)))
    assert score == pytest.approx(sp.load_run(trained).predictor.score(ids), abs=1e-5)


def test_answers_as_n_triples_are_whole(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.nt"
    call("predict", trained, "--head", "France", "--relation", "borders", "--top", "2", "--out", out)
    lines = out.read_text("utf-8").splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("<urn:staypositive:France> <urn:staypositive:borders> <urn:staypositive:")


def test_discoveries_as_parquet(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "new.parquet"
    call("discover", trained, "--top", "5", "--min-probability", "0.01", "--relations", "borders", "--out", out)
    assert list(pd.read_parquet(out).columns) == ["head", "relation", "tail", "probability", "score"]


def test_reading_an_endpoint(tmp_path: Path) -> None:
    pages = iter([bindings(("a", "r", "b"), ("b", "r", "c")), bindings()] * 2)
    endpoint = Endpoint(lambda query, accept: (200, next(pages)))
    try:
        query = "SELECT ?s ?p ?o { ?s ?p ?o }"
        found = json.loads(call("datasets", "show", endpoint.address, "--query", query, "--page", "50", "--json"))
        (tmp_path / "q.rq").write_text(query, "utf-8")
        again = json.loads(call("datasets", "show", endpoint.address, "--query", tmp_path / "q.rq", "--json"))
    finally:
        endpoint.close()
    assert found["counts"]["train"] == 2
    assert found == again
    assert endpoint.asked[0].endswith("LIMIT 50 OFFSET 0")


def test_reading_rdf(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    (tmp_path / "x.ttl").write_text("@prefix e: <http://e.org/> . e:a e:r e:b ; e:n 3 . _:x e:r e:a .", "utf-8")
    show = ["datasets", "show", tmp_path / "x.ttl"]
    assert "- 1 statements with a literal left out" in call(*show)
    found = json.loads(call(*show, "--literals", "--no-blank-nodes", "--shorten", "--json"))
    assert found["counts"] == {"entities": 3, "relations": 2, "train": 2, "valid": 0, "test": 0}
    assert found["notes"] == ["1 statements with a blank node left out"]


def test_a_query_that_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = fail(monkeypatch, capsys, "train", "http://127.0.0.1/sparql", "--query", "nowhere.rq")
    assert code == 2
    assert "--query is neither a query nor a file that can be read" in said
