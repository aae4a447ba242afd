"""The exported scorer in onnxruntime, against the run it came from: every model, every calibrator that is a map."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import staypositive as sp
from staypositive.evaluation import sigmoid
from staypositive.interop import export_onnx
from staypositive.models import MODELS
from staypositive.probability import Isotonic

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def graph() -> sp.KnowledgeGraph:
    draw = np.random.default_rng(0)
    rows = draw.integers(0, [30, 4, 30], (300, 3))
    split = sp.Split(rows[:60], np.where(draw.random(60) < 0.5, 1, -1))
    entities = sp.Vocabulary("entity", (f"e{i}" for i in range(30)))
    relations = sp.Vocabulary("relation", (f"r{i}" for i in range(4)))
    return sp.KnowledgeGraph("toy", entities, relations, sp.Split(rows[60:]), split, split)


def answers(path: Path, triples: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = dict(zip(("head", "relation", "tail"), triples.T, strict=True))
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))


@pytest.mark.parametrize("objective", ["stay-positive", "second-moment"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_scores_alike(graph: sp.KnowledgeGraph, tmp_path: Path, model: str, objective: str) -> None:
    prior = {"prior": 0.3} if sp.OBJECTIVES[objective].has_log_odds else {}
    run = sp.fit(
        graph, model=model, dim=6, epochs=2, objective=objective, init_scale=0.7, engine="reference", **prior
    )
    export_onnx(run, tmp_path / "scorer.onnx")
    found = answers(tmp_path / "scorer.onnx", graph.test.triples)
    scores = run.predictor.score(graph.test.triples)
    assert np.ptp(scores) > 0.01
    np.testing.assert_allclose(found["score"], scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["probability"], sigmoid(run.predictor.logits(scores)), atol=1e-5)


@pytest.mark.parametrize("method", ["platt", "temperature", "beta", "isotonic"])
def test_probabilities_are_the_calibrated_ones(graph: sp.KnowledgeGraph, tmp_path: Path, method: str) -> None:
    run = sp.fit(graph, model="simple", dim=6, epochs=2, init_scale=2.0)
    before = sigmoid(run.predictor.labelled_log_odds(graph.test.triples))
    run.calibrate(method)
    expected = sigmoid(run.predictor.labelled_log_odds(graph.test.triples))
    assert np.abs(expected - before).max() > 1e-3
    found = answers(export_onnx(run, tmp_path / "scorer.onnx"), graph.test.triples)
    np.testing.assert_allclose(found["probability"], expected, atol=1e-5)


def test_a_calibrator_of_the_background_leaves_the_score_alone(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(graph, model="distmult", dim=4, epochs=1)
    run.calibrate("posterior")
    assert list(answers(export_onnx(run, tmp_path / "scorer.onnx"), graph.test.triples)) == ["score"]


def test_labels_stand_beside_the_scorer(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    export_onnx(sp.fit(graph, model="distmult", dim=4, epochs=1), tmp_path / "scorer.onnx")
    labels = json.loads((tmp_path / "scorer.labels.json").read_text("utf-8"))
    assert labels == {"entities": list(graph.entities), "relations": list(graph.relations)}


def test_an_isotonic_map_of_one_value(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(graph, model="distmult", dim=4, epochs=1)
    run.calibrator = Isotonic(0.5, (0.5,), (0.25,))
    found = answers(export_onnx(run, tmp_path / "scorer.onnx"), graph.test.triples)
    assert (found["probability"] == 0.25).all()
