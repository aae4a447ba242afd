"""New entities for a run, and a start from an earlier one."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import load_example, planted_graph
from graphs import encode
from staypositive.errors import InputError, SettingError
from staypositive.inference import discover
from staypositive.inference.statistics import score_statistics

NEWCOMERS = [("even", "ally", "p0"), ("p2", "ally", "even"), ("even", "rival", "p5"), ("p7", "rival", "even")]
FAST = {"model": "simple", "dim": 20, "learning_rate": 0.5, "threads": 1}


def is_even(labels: list[str]) -> list[bool]:
    return [label != "even" and int(label[1:]) % 2 == 0 for label in labels]


def test_a_newcomer_is_told_by_its_facts(planted_run: sp.Run) -> None:
    grown = planted_run.with_entities(NEWCOMERS)
    allies = grown.predict(head="even", relation="ally", candidates=planted_run.graph.entities.labels, top=15)["tail"]
    assert all(is_even(list(allies)))
    rivals = grown.predict(relation="rival", tail="even", candidates=planted_run.graph.entities.labels, top=15)[
        "head"
    ]
    assert not any(is_even(list(rivals)))
    judged = grown.predict("even", "ally", "p0")
    assert bool(judged["known"].iloc[0])
    torch.testing.assert_close(grown.model.entities[:40], planted_run.model.entities)
    torch.testing.assert_close(grown.model.relations, planted_run.model.relations)
    assert len(planted_run.graph.entities) == 40
    assert grown.model.entity_rows().abs().max() < 1


def test_models_of_other_makes(planted: sp.KnowledgeGraph) -> None:
    points = sp.fit(planted, model="transe", dim=4, epochs=1)
    with pytest.raises(SettingError, match="transe's rows are formed from points"):
        points.with_entities([("newcomer", "ally", "p0")])
    shared = sp.fit(planted, model="tucker", dim=4, epochs=2, batch_size=64)
    grown = shared.with_entities([("newcomer", "ally", "p0")])
    assert torch.equal(grown.model.core, shared.model.core)
    assert len(grown.predict(head="newcomer", relation="ally", top=3)) == 3


@pytest.mark.parametrize("objective", sorted(sp.OBJECTIVES))
def test_every_objective_folds_in(planted: sp.KnowledgeGraph, objective: str) -> None:
    run = sp.fit(planted, model="complex", objective=objective, dim=6, epochs=25, batch_size=128, learning_rate=0.5)
    grown = run.with_entities(NEWCOMERS)
    allies = grown.predict(head="even", relation="ally", candidates=planted.entities.labels, top=10)["tail"]
    assert sum(is_even(list(allies))) >= 8  # of ten; by chance five


def test_a_grown_run_does_what_runs_do(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(planted, model="distmult", dim=8, epochs=20, batch_size=64, learning_rate=0.5)
    run.calibrate("platt")
    run.evaluate("test")
    grown = run.with_entities(NEWCOMERS)
    assert grown.metrics == {}
    assert grown.calibrator is run.calibrator
    assert grown.provenance["graph_sha256"] == grown.graph.fingerprint != run.provenance["graph_sha256"]
    grown.save(tmp_path / "grown")
    again = sp.load_run(tmp_path / "grown")
    assert again.graph.fingerprint == grown.graph.fingerprint
    assert again.provenance["added"] == [{"facts": 4, "entities": 1, "source": "facts given by label"}]
    assert again.evaluate("test")["ranking"]["queries"] == 2 * len(planted.test.facts)
    assert again.similar("even", top=3)["entity"].tolist() == grown.similar("even", top=3)["entity"].tolist()
    again.calibrate()
    assert score_statistics(again.predictor)["new_facts"].iloc[-1] > 0
    found = np.concatenate([part.triples for part in discover(again.predictor.assuming(0.5))])
    assert (found == 40).any(), "what is likely of the newcomer is found"
    assert 0 < again.predict("even", "ally", "p4")["probability"].iloc[0] < 1
    for method in ("null-logistic", "posterior"):
        again.calibrate(method)
        assert 0 < again.predict_proba([("even", "ally", "p4")], like_labelled=True)[0] < 1
    twice = again.with_entities([("odd", "rival", "even")])
    assert [more["entities"] for more in twice.provenance["added"]] == [1, 1]


def test_entities_are_reached_through_each_other(planted_run: sp.Run) -> None:
    chain = [*NEWCOMERS, ("friend", "ally", "even"), ("friend", "ally", "friend"), ("p0", "ally", "p0")]
    grown = planted_run.with_entities(chain)
    assert grown.graph.entities.labels[-2:] == ("even", "friend")
    ally, rival = (grown.predict("friend", relation, "even")["score"].iloc[0] for relation in ("ally", "rival"))
    assert ally > 0.5 > rival
    with pytest.raises(InputError, match=r"no fact of 'a' leads to an entity that the model knows.*1 others"):
        planted_run.with_entities([("a", "ally", "b")])
    with pytest.raises(InputError, match="no fact of 'a'"):
        planted_run.with_entities([("a", "ally", "a")])
    with pytest.raises(SettingError, match="ridge"):
        planted_run.with_entities(NEWCOMERS, ridge=-1.0)


def test_an_entity_that_training_never_saw_is_folded_in() -> None:
    seen = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    graph = encode("unseen", {"train": tuple(zip(*seen, strict=True)), "test": (("a",), ("r",), ("z",))}, {})
    run = sp.fit(graph, dim=4, epochs=3)
    grown = run.with_entities([("z", "r", "a")])
    assert grown.graph.entities == graph.entities
    assert not torch.equal(grown.model.entities[3], run.model.entities[3])
    torch.testing.assert_close(grown.model.entities[:3], run.model.entities[:3])


# -- starts from an earlier run ----------------------------------------------------------------------------------


def test_a_start_matches_labels(planted: sp.KnowledgeGraph) -> None:
    """Ids differ between the graphs; no epoch is trained on what can be compared, since the learning rate is 0."""
    run = sp.fit(planted, objective="second-moment", dim=4, epochs=2)
    order = np.random.default_rng(0).permutation(len(planted.train))
    facts = [tuple(v[i] for v, i in zip((planted.entities, planted.relations, planted.entities), triple, strict=True))
             for triple in planted.train.facts[order].tolist()]  # fmt: skip
    grown = encode("grown", {"train": tuple(zip(("x", "new", "y"), *facts, *NEWCOMERS, strict=True))}, {})
    options = {"objective": "second-moment", "dim": 4, "epochs": 1, "learning_rate": 1e-30}
    warm, cold = sp.fit(grown, start_from=run, **options), sp.fit(grown, **options)
    for label in planted.entities:
        own, theirs = grown.entities.id(label), planted.entities.id(label)
        torch.testing.assert_close(warm.model.entities[own], run.model.entities[theirs])
    for label in planted.relations:
        for block in (0, 1):
            own = grown.relations.id(label) + block * len(grown.relations)
            theirs = planted.relations.id(label) + block * len(planted.relations)
            torch.testing.assert_close(warm.model.relations[own], run.model.relations[theirs])
    fresh = [grown.entities.id("x"), grown.entities.id("y")]
    torch.testing.assert_close(warm.model.entities[fresh], cold.model.entities[fresh])
    even = grown.entities.id("even")
    torch.testing.assert_close(warm.model.entities[even], run.with_entities(NEWCOMERS).model.entities[40])
    assert warm.provenance["start_from"]["entities"] == {"kept": 40, "folded_in": 1, "fresh": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 9}, "same dim: it has 8, here 9"),
        ({"model": "complex"}, "same model"),
        ({"model": "rescal"}, "same model"),
        ({"bound": "identity"}, "same bound"),
        ({"objective": "second-moment", "bound": "tanh"}, "same reciprocal"),
    ],
)
def test_a_start_needs_the_same_model(planted_run: sp.Run, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        sp.fit(planted_graph(), start_from=planted_run, **{"model": "distmult", "dim": 8, "epochs": 1} | changes)


# -- quality, on geo ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("new_entities")


def test_on_geo_newcomers_rank_far_above_chance_and_a_warm_start_is_ahead(example: ModuleType) -> None:
    held = example.hold_out(sp.load_graph("geo"), share=0.05)
    new = {label for h, _, t in held.given for label in (h, t)} - {label for h, _, t in held.rest for label in (h, t)}
    assert len(new) >= 200
    assert not set(held.given) & set(held.asked)
    run = sp.fit(example.graph_of("without", held.rest), epochs=20, **FAST)
    found = example.measure(run.with_entities(held.given), held)
    assert found["mrr"] > 0.2 > 50 * found["chance"]
    columns = {name: tuple(zip(*part, strict=True)) for name, part in
               (("train", [*held.rest, *held.given]), ("valid", held.asked))}  # fmt: skip
    grown = encode("grown", columns, {})
    warm, cold = (
        sp.fit(grown, epochs=3, validate_every=1, start_from=start, **FAST).history for start in (run, None)
    )
    for early, late in zip(warm, cold, strict=True):
        assert early.validation["mrr"] > 2 * late.validation["mrr"]
