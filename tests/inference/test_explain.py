"""Supporting facts against gradients taken by autograd, for every model and every fact."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph, tiny_model
from staypositive.cli import app
from staypositive.errors import InputError, UnknownLabelError
from staypositive.graph.knowledge_graph import Split, Vocabulary
from staypositive.inference import Explainer, Predictor
from staypositive.models import Scorer

FACTS = np.array([(0, 0, 1), (1, 0, 0), (0, 1, 2), (3, 0, 4), (2, 2, 0), (5, 1, 1), (6, 2, 6), (1, 2, 3), (0, 0, 0)])


def small_graph() -> sp.KnowledgeGraph:
    entities, relations = Vocabulary("entity", "abcdefg"), Vocabulary("relation", "rst")
    return sp.KnowledgeGraph("small", entities, relations, Split(FACTS), Split([[1, 1, 4]]), Split([]))


def gradient(scorer: Scorer, triple: tuple[int, int, int]) -> torch.Tensor:
    """The gradient of one score in all rows of all entities and relations, by autograd."""
    entities = scorer.entity_rows.clone().requires_grad_()
    relations = scorer.relation_rows.clone().requires_grad_()
    model, (h, r, t) = scorer.model, triple
    score = model.score_rows(entities[h], relations[r], entities[t])
    if model.reciprocal:
        score = (score + model.score_rows(entities[t], relations[r + model.n_relations], entities[h])) / 2
    found = torch.autograd.grad(score, (entities, relations))
    return torch.cat([part.reshape(-1) for part in found])


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("triple", [(0, 0, 1), (0, 0, 4), (6, 2, 6), (2, 1, 0), (4, 2, 5)])
def test_support_is_the_product_of_gradients(model_name: str, reciprocal: bool, triple: tuple[int, int, int]) -> None:
    scorer = Scorer(tiny_model(model_name, reciprocal=reciprocal))
    facts, support = Explainer(Predictor(small_graph(), scorer)).of(triple, top=99)
    own = gradient(scorer, triple)
    expected = {
        fact: float(gradient(scorer, fact) @ own / (own @ own))
        for fact in map(tuple, FACTS.tolist())
        if fact != triple
    }
    positive = {fact: value for fact, value in expected.items() if value > 1e-12}
    assert set(map(tuple, facts.tolist())) == set(positive)
    assert (np.diff(support) <= 0).all()
    for fact, value in zip(map(tuple, facts.tolist()), support, strict=True):
        assert value == pytest.approx(positive[fact], rel=1e-9)


def test_only_training_facts_support_and_top_is_kept() -> None:
    predictor = Predictor(small_graph(), Scorer(tiny_model("complex")))
    found, _ = Explainer(predictor).of((1, 1, 4), top=2)
    assert len(found) <= 2
    everything, _ = Explainer(predictor).of((1, 1, 3), top=99)
    assert (1, 1, 4) not in set(map(tuple, everything.tolist()))
    with pytest.raises(InputError, match="at least 1"):
        Explainer(predictor).of((0, 0, 1), top=0)


def test_support_by_label_and_on_the_command_line(tmp_path) -> None:
    run = sp.fit(planted_graph(), model="distmult", dim=8, epochs=20, batch_size=64, learning_rate=0.5)
    table = run.explain("p0", "ally", "p2", top=4)
    assert table.columns.tolist() == ["head", "relation", "tail", "support"]
    assert set(table["relation"]) == {"ally"}
    run.save(tmp_path / "run")
    asked = [
        "explain",
        str(tmp_path / "run"),
        "--head",
        "p0",
        "--relation",
        "ally",
        "--tail",
        "p2",
        "--top",
        "4",
        "--json",
    ]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert json.loads(done.stdout) == table.to_dict("records")
    with pytest.raises(UnknownLabelError):
        run.explain("p0", "ally", "q")
