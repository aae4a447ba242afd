"""What fuzzing found, each as the smallest input that had it."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import staypositive as sp
from staypositive.errors import DataError, DownloadError, SettingError
from staypositive.graph import load_graph, read_triples
from staypositive.graph.encoded import read_encoded, write_encoded
from staypositive.graph.readers import read_sparql
from staypositive.run import Settings, make_settings
from staypositive.run.fitting import blank_model
from staypositive.tuning.space import read_space


def test_a_zip_file_of_an_unknown_compression(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write_encoded(path, planted)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")  # the first entry of the directory
    data[place + 10 : place + 12] = (99).to_bytes(2, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"x\.npz: not an encoded graph"):
        read_encoded(path)


@pytest.mark.parametrize("labels", [["a", " "], ["a", 7], ["a", "\ud800"], ["a", None], ["a", "a"]])
def test_an_encoded_graph_with_labels_that_are_none(tmp_path: Path, labels: list[object]) -> None:
    about = {"name": "x", "entities": labels, "relations": ["r"], "sources": [], "notes": []}
    triples = {split: np.zeros((1, 3), dtype=np.int32) for split in ("train", "valid", "test")}
    arrays = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **triples}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=r"x\.npz: not an encoded graph: .*label"):
        read_encoded(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["c8", "U3", "?", "M8[s]"])
def test_weights_that_are_no_numbers(planted: sp.KnowledgeGraph, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.npz"
    write_encoded(path, planted)
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays["train_weights"] = np.ones(len(planted.train)).astype("i8").astype(kind)
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=r"x\.npz: not an encoded graph: weights are numbers"):
        read_encoded(path)


@pytest.mark.parametrize("cell", ["1e300", "inf", "-1", "nan", "x", "3.5e38"])
def test_a_confidence_that_32_bits_cannot_hold(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(f"head\trelation\ttail\tconfidence\na\tr\tb\t1\na\tr\tc\t{cell}\n", "utf-8")
    with pytest.raises(DataError, match=r"x\.tsv:3: expected a number from 0 as confidence"):
        read_triples(path)


def test_a_file_of_falsehoods_alone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tr\tb\t-1\n", "utf-8")
    with pytest.raises(DataError, match=r"x\.tsv: graph 'x' has no training triples"):
        load_graph(path)


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * 100_000, b"[]", b'"x"', b'{"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [7]}}',
        b'{"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [{"s": {"type": "uri", "value": 1.5}, '
        b'"p": {"type": "uri", "value": "p"}, "o": {"type": "uri", "value": "o"}}]}}',
    ],
)  # fmt: skip
def test_an_answer_of_another_shape(answer: bytes) -> None:
    asked = sp.Sparql("http://x/q", "SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 1")
    with (
        patch("staypositive.graph.readers.sparql._post", return_value=answer),
        pytest.raises(DownloadError, match="http://x/q did not answer with"),
    ):
        read_sparql(asked)


def test_half_a_character_from_an_endpoint() -> None:
    terms = {name: {"type": "uri", "value": "\ud800"} for name in "spo"}
    answer = json.dumps({"head": {"vars": list("spo")}, "results": {"bindings": [terms]}}).encode()
    asked = sp.Sparql("http://x/q", "SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 1")
    with (
        patch("staypositive.graph.readers.sparql._post", return_value=answer),
        pytest.raises(DataError, match=r"the head is not text: '\\ud800'"),
    ):
        read_sparql(asked)


@pytest.mark.parametrize(
    "data", [b"\xff", b"[space", b"space = 3", b"settings = []", b"a = " + b"[" * 5000, b"[space]\ndim = 3"]
)
def test_a_space_that_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"x\.toml: "):
        read_space(path)


@pytest.mark.parametrize(
    "data", [None, [], {}, {"objective": "stay-positive"}, {"objective": {}}, {"objective": {"name": []}}]
)
def test_settings_that_are_none(data: object) -> None:
    with pytest.raises(SettingError):
        Settings.from_dict(data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dim": "8"}, "dim must be a whole number, got '8'"),
        ({"dim": True}, "dim must be a whole number, got True"),
        ({"dim": 8.0}, "dim must be a whole number, got 8.0"),
        ({"model": None}, "model must be text, got None"),
        ({"learning_rate": [1]}, r"learning_rate must be a number, got \[1\]"),
        ({"prior_score": 10**400}, "prior_score must be a number"),
        ({"penalty_weight": "x"}, "penalty_weight must be a number, got 'x'"),
        ({"penalty_weight": float("nan")}, "penalty_weight must be a finite number"),
        ({"objective": 7}, "an objective goes by its name, got 7"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_settings_of_another_kind(change: dict[str, object], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make_settings(**change)


def test_a_run_trained_with_more_threads_than_there_are_here_can_be_read(planted: sp.KnowledgeGraph) -> None:
    stated = make_settings(dim=2).as_dict() | {"threads": 100_000}
    assert Settings.from_dict(stated).threads == 100_000
    with pytest.raises(SettingError, match="threads must be between 1 and this machine's"):
        sp.fit(planted, Settings.from_dict(stated))


def test_hole_answers_questions(planted: sp.KnowledgeGraph) -> None:
    """No whole triple is judged then, and not every library forms the spectrum of nothing."""
    run = sp.fit(planted, model="hole", dim=4, epochs=1)
    assert len(run.predict(head="p0", relation="ally", top=3)) == 3
    assert len(run.predictor.score(np.empty((0, 3), dtype=np.int64))) == 0


def test_a_model_that_fits_is_built(planted: sp.KnowledgeGraph) -> None:
    assert blank_model(planted, make_settings(dim=4)).entities.shape == (40, 8)
