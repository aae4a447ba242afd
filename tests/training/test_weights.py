"""A confidence weighs each fact's loss: whole numbers are so many copies of a fact, and 0 is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import tiny_model
from staypositive.errors import InputError, SettingError
from staypositive.graph import add_facts
from staypositive.models import build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, SecondMoment, StayPositive
from staypositive.training import build_optimiser
from stepping import engine_of, stepped

FACTS = torch.tensor([(0, 0, 1), (2, 1, 2), (4, 0, 0), (5, 1, 3)])
WEIGHTS = torch.tensor([1.0, 3.0, 0.0, 2.0])
COPIES = FACTS.repeat_interleave(WEIGHTS.long(), dim=0)
OBJECTIVES: list[Objective] = [
    StayPositive(scope="all"),
    OneVsAll(),
    SecondMoment(reciprocal=False, n3=0.0),
    SecondMoment(reciprocal=False, n3=0.0, likelihood_weight=0.3, weighting="triple"),
]


def gradients(objective: Objective, facts: torch.Tensor, weights: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The terms' values, and the step that the sum of them takes, by plain gradient descent in 64 bits."""
    model = tiny_model("distmult", bound=objective.defaults.bound, prior_score=-0.3).double()
    tables = {name: table.data for name, table in model.named_parameters()}
    optimiser = build_optimiser("adagrad", tables, 0.1, 1.0)
    engine = stepped("reference", model, objective, optimiser, facts, len(facts), 0, weights)
    everything = torch.arange(len(facts))
    terms = engine.step(*engine.facts.take(everything))
    return terms | {name: table.detach() for name, table in model.named_parameters()}


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_a_weight_is_so_many_copies(objective: Objective) -> None:
    scale = len(COPIES) / len(FACTS) if objective.averages else 1.0  # a mean divides by the number of rows
    one = gradients(objective, FACTS, WEIGHTS.double() / scale)
    many = gradients(objective, COPIES, None)
    plain = gradients(objective, FACTS, None)
    assert not torch.allclose(plain["entities"], many["entities"])
    for name, value in many.items():
        torch.testing.assert_close(one[name], value, rtol=1e-9, atol=1e-12)


def test_corruptions_weigh_as_their_facts_do() -> None:
    model = tiny_model("distmult").double()
    objective = NegativeSampling(negatives=2)
    tables = {name: table.data for name, table in model.named_parameters()}
    engine = stepped("auto", model, objective, build_optimiser("adagrad", tables, 0.1, 0.1), FACTS, 4, 0, WEIGHTS)
    assert engine.name == "autograd"
    key = torch.tensor([5])
    found = objective.terms(model, engine.store.fetch(*engine.facts.take(torch.arange(4)), key).batch)
    examples = objective.examples(FACTS[None], model.n_entities, key)[0].tolist()
    expected = {"facts": 0.0, "negatives": 0.0}
    for place, (h, r, t) in enumerate(examples):
        logit = float(model.logit(*(torch.tensor([i]) for i in (h, r, t))).detach())
        is_fact = place < len(FACTS)
        loss = np.logaddexp(0, -logit if is_fact else logit)
        expected["facts" if is_fact else "negatives"] += float(WEIGHTS[place % len(FACTS)]) * loss
    for name, value in expected.items():
        assert float(found[name].detach()) == pytest.approx(value, rel=1e-9)


def test_the_engine_on_moments_weighs_as_the_reference_does() -> None:
    draw = torch.Generator().manual_seed(0)
    facts = torch.stack([torch.randint(0, n, (40,), generator=draw) for n in (60, 3, 60)], dim=1)
    weights = torch.rand(40, generator=draw)
    objective = SecondMoment(reciprocal=False, relation_power=0.5)
    rows = {}
    for name in ("reference", "fused"):
        model = build_model("simple", 60, 3, 2, bound="identity")
        model.initialise(torch.Generator().manual_seed(1), 0.5)
        tables = {key: table.data for key, table in model.named_parameters()}
        engine = engine_of(
            name, model, objective, build_optimiser("adagrad", tables, 0.1, 0.1), facts, 40, 0, weights
        )
        engine.run_epoch()
        rows[engine.name] = model.entities.detach().clone()
    assert set(rows) == {"autograd", "autograd-gram"}
    torch.testing.assert_close(rows["autograd"], rows["autograd-gram"], rtol=1e-4, atol=1e-5)


def test_fit_takes_the_confidence_of_a_file(tmp_path: Path) -> None:
    rows = [(f"e{i}", "r", f"e{(3 * i) % 17}", i % 3) for i in range(17)]
    path = tmp_path / "x.tsv"
    path.write_text(
        "head\trelation\ttail\tconfidence\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8"
    )
    graph = sp.load_graph(path, split=(1, 0, 0))
    assert graph.train.weights is not None
    assert graph.train.weights.tolist() == [row[3] for row in rows]
    run = sp.fit(graph, model="distmult", dim=4, epochs=2)
    assert run.provenance["engine"] == "autograd"
    run.save(tmp_path / "run")
    again = sp.load_run(tmp_path / "run").graph
    assert again.fingerprint == graph.fingerprint
    assert again.train.weights is not None
    without = sp.KnowledgeGraph(
        "x", graph.entities, graph.relations, sp.Split(graph.train.triples), *[graph.valid] * 2
    )
    assert without.fingerprint != graph.fingerprint
    other = sp.fit(without, model="distmult", dim=4, epochs=2, engine="reference")
    assert not torch.allclose(other.model.entities, run.model.entities)
    with pytest.raises(SettingError, match="count all facts alike, and these have weights"):
        sp.fit(graph, model="distmult", dim=4, epochs=1, engine="fused")


def test_nothing_to_learn_from() -> None:
    triples = np.array([[0, 0, 1]])
    labels = sp.Vocabulary("entity", "ab"), sp.Vocabulary("relation", "r")
    graph = sp.KnowledgeGraph("x", *labels, sp.Split(triples, weights=np.zeros(1)), *[sp.Split(np.empty((0, 3)))] * 2)
    with pytest.raises(InputError, match="every training fact of x has confidence 0"):
        sp.fit(graph, model="distmult", dim=2, epochs=1)


def test_weights_follow_their_triples() -> None:
    split = sp.Split(np.array([[0, 0, 1], [1, 0, 0]]), np.array([1, -1]), np.array([0.5, 0.25]))
    assert split.fact_weights is not None
    assert split.fact_weights.tolist() == [0.5]
    taken = split.take(np.array([False, True]))
    assert taken.weights is not None
    assert taken.weights.tolist() == [0.25]
    for bad in (np.array([1.0]), np.array([1.0, -1.0]), np.array([1.0, np.nan])):
        with pytest.raises(InputError, match="weights must be one finite number from 0"):
            sp.Split(split.triples, weights=bad)


def test_added_facts_weigh_one_beside_those_with_a_confidence() -> None:
    frame = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "a"], "confidence": [0.5, 0.25]}
    import pandas as pd

    graph = sp.load_graph({"train": pd.DataFrame(frame)})
    grown = add_facts(graph, [("c", "r", "a"), ("a", "r", "b")])
    assert grown.train.weights is not None
    assert grown.train.weights.tolist() == [0.5, 0.25, 1.0]
    assert sp.drop_unseen(grown).train.weights is not None
