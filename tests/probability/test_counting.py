"""Counted unknown pairs against all of them, enumerated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import quick_fit
from graphs import encode
from staypositive.probability import Evidence, counting, discovery_sample, likely_pairs
from staypositive.probability.counting import LINKED, count_unknown


def unknown_pairs(evidence: Evidence, relation: int) -> np.ndarray:
    n = evidence.n_entities
    every = np.array([(head, relation, tail) for head in range(n) for tail in range(n)])
    return every[evidence.is_unknown(every, relation)]


@pytest.fixture
def evidence(incomplete_run: sp.Run) -> Evidence:
    return incomplete_run._evidence


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    """Let scores of 10 × 10 likely members be looked at, so that most pairs are drawn among the others."""
    width = evidence.n_relations * 4 * evidence.scorer.entity_rows.shape[1]
    monkeypatch.setattr(counting, "PRODUCTS", 100.5 * width)
    monkeypatch.setattr(counting, "OUTSIDE", 300)
    monkeypatch.setattr(counting, "_likely_members", chosen_members)


def chosen_members(evidence: Evidence, relation: int, side: str, most: int) -> np.ndarray:
    """All members are likely, on a graph where all entities are members: so that there are others, ten are."""
    assert most == 10
    return np.sort(np.random.default_rng(relation).permutation(evidence.n_entities)[:most])


@pytest.mark.parametrize("wanted", [80.0, 400.0])
@pytest.mark.parametrize("relation", [0, 1])
def test_weights_sum_to_the_number_of_unknown_pairs(evidence: Evidence, relation: int, wanted: float) -> None:
    sums_to_all(evidence, relation, wanted)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("relation", [0, 1])
def test_so_do_those_of_entities_that_hardly_fit(evidence: Evidence, relation: int) -> None:
    sums_to_all(evidence, relation, 200.0, repeated=True)


def sums_to_all(evidence: Evidence, relation: int, wanted: float, repeated: bool = False) -> None:
    unknown = unknown_pairs(evidence, relation)
    some = unknown[:, 0] % 3 == 0  # weights sum to the number of any pairs, chosen beforehand
    sums = []
    for seed in range(40):
        found = count_unknown(evidence, relation, wanted, seed)
        keys = evidence.keys(found.triples)
        assert np.isin(keys, evidence.keys(unknown)).all()
        assert repeated or len(np.unique(keys)) == len(keys)
        assert (found.weights >= 1 - 1e-9).all()
        sums.append((found.weights.sum(), found.weights[found.triples[:, 0] % 3 == 0].sum()))
    means, errors = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (abs(means - [len(unknown), some.sum()]) < 4.5 * errors + 1e-9 * len(unknown)).all()
    assert (errors < 0.1 * means).all()


def test_what_facts_link_is_all_there_and_counts_once(evidence: Evidence) -> None:
    for relation in (0, 1):
        heads, tails = evidence.links.likely_pairs(relation, LINKED)
        linked = np.column_stack([heads, np.full_like(heads, relation), tails])
        linked = linked[evidence.is_unknown(linked, relation)]
        found = count_unknown(evidence, relation, 50.0, 0)
        own = np.isin(evidence.keys(found.triples), evidence.keys(linked))
        assert own.sum() == len(linked)
        assert (found.weights[own] == 1).all()


def test_all_pairs_are_there_where_as_many_are_wanted(evidence: Evidence) -> None:
    found = count_unknown(evidence, 0, 1e6, 0)
    assert len(found.triples) == len(unknown_pairs(evidence, 0))
    assert (found.weights == 1).all()


def test_a_seed_means_one_draw(evidence: Evidence) -> None:
    first, second, other = (count_unknown(evidence, 0, 100.0, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.triples, second.triples)
    assert len(first.triples) != len(other.triples) or (first.triples != other.triples).any()


def test_relations_with_more_held_out_facts_have_more_pairs(
    incomplete_run: sp.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staypositive.probability.triple_posterior.PAIRS_PER_RELATION", 100)
    monkeypatch.setattr("staypositive.probability.triple_posterior.PAIRS_PER_FACT", 20)
    evidence, told = incomplete_run._evidence, []
    held_out = incomplete_run.graph.valid.facts
    few = held_out[(held_out[:, 1] == 1) | (np.cumsum(held_out[:, 1] == 0) <= 2)]
    triples, weights = discovery_sample(evidence, few, 1, told.append)
    assert told == [1, 1]
    assert (triples[:, 1] == 1).sum() > 2 * (triples[:, 1] == 0).sum() > 0
    assert len(weights) == len(triples)


def definition(evidence: Evidence, triples: np.ndarray) -> np.ndarray:
    """The mean over both sides of a pair's z-score and of how many more answers its question should have."""
    total = np.zeros(len(triples))
    rows = evidence.scorer.entity_rows
    for side, column in (("tail", 2), ("head", 0)):
        lines = (evidence.scorer.queries(torch.as_tensor(triples), side) @ rows.T).detach().double().numpy()
        own = lines[np.arange(len(triples)), triples[:, column]]
        given = triples[:, 2 - column]
        count = evidence.links.answers(triples[:, 1], given, side)
        total += (own - lines.mean(1)) / lines.std(1) + evidence.links.more_answers(triples[:, 1], count, side)
    return total / 2


@pytest.mark.parametrize("block", [2**22, 100])
@pytest.mark.parametrize("most", [1, 30, 10_000])
def test_likely_pairs_are_the_best_of_all(
    evidence: Evidence, most: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "BLOCK", block)
    for relation in (0, 1):
        every = np.array([(h, relation, t) for h in range(40) for t in range(40)])
        values = np.sort(definition(evidence, every))[::-1]
        found = likely_pairs(evidence, relation, most)
        assert len(np.unique(found, axis=0)) == len(found)
        assert (found[:, 1] == relation).all()
        keys = set(evidence.keys(found).tolist())
        limit = values[min(most, len(values)) - 1]
        best = every[definition(evidence, every) > limit + 1e-4]
        assert keys >= set(evidence.keys(best).tolist())
        heads, tails = evidence.links.likely_pairs(relation, LINKED)
        linked = set(evidence.keys(np.column_stack([heads, np.full_like(heads, relation), tails])).tolist())
        assert keys >= linked
        rest = every[np.isin(evidence.keys(every), [*(keys - linked)])]
        assert not len(rest) or (definition(evidence, rest) > limit - 1e-4).all()


def test_members_come_before_others_that_fit() -> None:
    """A graph where a few have a role, one shares its other role, and the rest do not."""
    facts = [(f"a{i}", "makes", f"b{j}") for i in range(4) for j in range(3)]
    facts += [(f"a{i}", "lives", f"c{i}") for i in range(5)] + [(f"d{i}", "knows", f"d{i + 1}") for i in range(9)]
    run = quick_fit(encode("roles", {"train": tuple(zip(*facts, strict=True))}, {}), epochs=1)
    evidence, entities = run._evidence, run.graph.entities
    makes = run.graph.relations.id("makes")

    def chosen(most: int) -> set[str]:
        return {entities[i] for i in counting._likely_members(evidence, makes, "head", most).tolist()}

    members = {f"a{i}" for i in range(4)}
    assert chosen(1) == members  # however few are asked for
    assert chosen(5) == members | {"a4"}
    assert chosen(len(entities)) == set(entities)
