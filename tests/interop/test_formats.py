"""Graphs, embeddings and tables as files that others read, and that we read again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from staypositive.errors import InputError, SettingError
from staypositive.interop import export_embeddings, export_graph, write_table
from staypositive.interop.ntriples import PROBABILITY, RDF, iri, node


@pytest.fixture(scope="module")
def run() -> sp.Run:
    return sp.fit(sp.load_graph("geo"), model="simple", dim=4, epochs=1, objective="second-moment")


def signed(graph: sp.KnowledgeGraph, split: str) -> list[tuple[str, str, str, int]]:
    own = graph.split(split)
    return sorted(
        (graph.entities[h], graph.relations[r], graph.entities[t], sign)
        for (h, r, t), sign in zip(own.triples.tolist(), own.signs.tolist(), strict=True)
    )


@pytest.mark.parametrize("format", ["tsv", "parquet", "npz"])
def test_a_graph_reads_back_the_same(run: sp.Run, tmp_path: Path, format: str) -> None:
    if format == "parquet":
        pytest.importorskip("pyarrow")
    out = export_graph(run.graph, tmp_path / f"graph.{format}", format)
    assert sp.load_graph(out).fingerprint == run.graph.fingerprint


def test_weights_travel_with_a_graph(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame([("a", "r", "b"), ("b", "r", "a")], columns=["head", "relation", "tail"])
    tables = {"train": frame.assign(confidence=[0.5, 0.1]), "valid": frame.assign(label=[1, -1]), "test": frame}
    graph = sp.load_graph(tables)
    for format in ("tsv", "parquet", "npz"):
        again = sp.load_graph(export_graph(graph, tmp_path / f"graph.{format}", format))
        assert again.fingerprint == graph.fingerprint


def test_a_graph_as_n_triples(run: sp.Run, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    from urllib.parse import unquote

    base = "http://example.org/geo/"
    again = sp.load_graph(export_graph(run.graph, tmp_path / "graph", "nt", base))
    assert (tmp_path / "graph" / "valid_negatives.nt").exists()
    for split in ("train", "valid", "test"):
        labels = [(*(unquote(label.removeprefix(base)) for label in row[:3]), row[3]) for row in signed(again, split)]
        assert sorted(labels) == signed(run.graph, split)


def test_terms_stay_what_they_are() -> None:
    assert iri("http://e.org/a b") == "<urn:staypositive:http%3A%2F%2Fe.org%2Fa%20b>"
    assert node("_:b1") == "_:b1"
    assert node("_:b 1") == "<urn:staypositive:_%3Ab%201>"
    assert node('"x"@en', may_be_literal=True) == '"x"@en'
    assert node('"x"@en') == "<urn:staypositive:%22x%22%40en>"
    assert node('"x" . <a:b>', may_be_literal=True).startswith("<urn:")


def test_discoveries_as_n_triples_with_probabilities(tmp_path: Path) -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    rdflib = pytest.importorskip("rdflib")
    table = pd.DataFrame(
        {"head": ["Å b"], "relation": ["x:r"], "tail": ["http://e.org/a"], "probability": [0.125], "score": [3.0]}
    )
    path = write_table(table, tmp_path / "new.nt")
    found = list(pyoxigraph.parse(path=str(path)))
    assert len(found) == 6
    (stated,) = [quad for quad in found if quad.predicate.value == PROBABILITY]
    assert float(stated.object.value) == 0.125
    graph = rdflib.Graph().parse(path)
    (subject,) = graph.objects(None, rdflib.URIRef(f"{RDF}subject"))
    assert str(subject) == "urn:staypositive:%C3%85%20b"
    assert (subject, rdflib.URIRef("urn:staypositive:x%3Ar"), rdflib.URIRef("http://e.org/a")) in graph


def test_tables_by_ending(tmp_path: Path) -> None:
    table = pd.DataFrame({"tail": ["a,b", "nan"], "probability": [0.5, 0.25]})
    assert write_table(table, tmp_path / "x.tsv").read_text("utf-8") == "tail\tprobability\na,b\t0.5\nnan\t0.25\n"
    assert write_table(table, tmp_path / "x.csv").read_text("utf-8") == 'tail,probability\n"a,b",0.5\nnan,0.25\n'
    with pytest.raises(InputError, match="this table has no head"):
        write_table(table, tmp_path / "x.nt")
    with pytest.raises(InputError, match=r"a \.parquet, a \.nt file, got 'x\.xls'"):
        write_table(table, tmp_path / "x.xls")
    pytest.importorskip("pyarrow")
    pd.testing.assert_frame_equal(pd.read_parquet(write_table(table, tmp_path / "x.parquet")), table)


def test_embeddings_as_arrays(run: sp.Run, tmp_path: Path) -> None:
    export_embeddings(run, tmp_path, "npy")
    rows = np.load(tmp_path / "entities.npy", allow_pickle=False)
    np.testing.assert_array_equal(rows, run.model.entity_rows().detach().numpy())
    assert json.loads((tmp_path / "entities.json").read_text("utf-8")) == list(run.graph.entities)
    names = json.loads((tmp_path / "relations.json").read_text("utf-8"))
    assert names == [*run.graph.relations, *(f"{name}_inverse" for name in run.graph.relations)]
    assert len(np.load(tmp_path / "relations.npy")) == 18


def test_embeddings_as_parquet(run: sp.Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    export_embeddings(run, tmp_path, "parquet")
    table = pd.read_parquet(tmp_path / "entities.parquet")
    assert table["label"].tolist() == list(run.graph.entities)
    np.testing.assert_array_equal(np.stack(table["vector"]), run.model.entity_rows().detach().numpy())


def test_embeddings_for_word2vec(run: sp.Run, tmp_path: Path) -> None:
    export_embeddings(run, tmp_path, "word2vec")
    first, *lines = (tmp_path / "entities.txt").read_text("utf-8").splitlines()
    assert first == f"{len(run.graph.entities)} 8"
    cells = [line.split(" ") for line in lines]
    assert {len(row) for row in cells} == {9}
    assert cells[0][0] == run.graph.entities[0].replace(" ", "_")
    rows = np.array([row[1:] for row in cells], dtype=np.float32)
    np.testing.assert_array_equal(rows, run.model.entity_rows().detach().numpy())


def test_two_labels_never_become_one_word(tmp_path: Path) -> None:
    graph = sp.load_graph({"train": np.array([["a b", "r", "a_b"]])})
    run = sp.fit(graph, model="distmult", dim=2, epochs=1)
    with pytest.raises(InputError, match="two entities would both be called 'a_b'"):
        export_embeddings(run, tmp_path, "word2vec")


def test_formats_that_do_not_exist(run: sp.Run, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="graph can be exported as tsv, parquet, nt, npz, got 'xml'"):
        export_graph(run.graph, tmp_path / "x", "xml")
    with pytest.raises(SettingError, match="embeddings can be exported as npy, parquet, word2vec, got 'xml'"):
        export_embeddings(run, tmp_path / "x", "xml")
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "mine").touch()
    with pytest.raises(InputError, match="is not empty"):
        export_graph(run.graph, tmp_path / "y", "nt")
