"""Features of triples against their definitions, in plain loops over all facts and all entities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from conftest import tiny_model
from staypositive.models import Scorer
from staypositive.probability import Evidence
from staypositive.probability.evidence import FEATURES

Fact = tuple[int, int, int]
N, R, CERTAIN, BINS = 7, 3, 12.0, 16
FACTS: list[Fact] = [
    (0, 0, 1), (0, 0, 2), (3, 0, 1), (4, 0, 5), (0, 1, 1), (1, 1, 3), (3, 1, 1), (2, 1, 2), (1, 2, 0), (1, 2, 3),
    (5, 2, 4), (6, 2, 0), (0, 0, 3), (0, 0, 4), (0, 0, 5),
]  # fmt: skip
EVERY = np.array([(h, r, t) for h in range(N) for r in range(R) for t in range(N)])
SIDES = {"tail": 2, "head": 0}


def answers(facts: set[Fact], relation: int, given: int, side: str) -> set[int]:
    column = SIDES[side]
    return {fact[column] for fact in facts if fact[1] == relation and fact[2 - column] == given}


def members(facts: set[Fact], relation: int, side: str) -> list[int]:
    return sorted({fact[SIDES[side]] for fact in facts if fact[1] == relation})


def bin_of(count: int) -> int:
    return count if count < 4 else min(2 + int(math.log2(count)), BINS - 1)


def more_answers(facts: set[Fact], relation: int, count: int, side: str) -> float:
    """ln of facts that belong to questions with one answer more, per question with so many answers."""
    sizes = [len(answers(facts, relation, given, side)) for given in range(N)]
    more = sum(size for size in sizes if size and bin_of(size - 1) == bin_of(count))
    return math.log((more + 0.5) / (sum(bin_of(size) == bin_of(count) for size in sizes) + 1))


def best_of_items(table: dict[object, set[int]], thing: object, target: int, own: int, n_things: int) -> float:
    """Log-odds of a target by the other items of a thing, of which one, whose fact is left out, has it in vain."""
    found = -CERTAIN
    rate = (sum(target in items for items in table.values()) + 0.5) / (n_things + 1)
    for item in table.get(thing, set()) - {target}:
        with_item = [items for items in table.values() if item in items]
        both = sum(target in items for items in with_item) - own
        odds = math.log((both + rate) / (len(with_item) - both + 1 - rate))
        found = max(found, min(max(odds, 0.001 - CERTAIN), CERTAIN))
    return found


def roles(facts: set[Fact]) -> dict[object, set[int]]:
    """Items of entities: the relations that they are heads of, and R on, those that they are tails of."""
    table: dict[object, set[int]] = {entity: set() for entity in range(N)}
    for head, relation, tail in facts:
        if head != tail:
            table[head].add(relation)
            table[tail].add(relation + R)
    return table


def links(facts: set[Fact]) -> dict[object, set[int]]:
    """Items of pairs of entities: the relations from the first to the second, and R on, those back."""
    table: dict[object, set[int]] = {}
    for head, relation, tail in facts:
        table.setdefault((head, tail), set()).add(relation)
        if head != tail:
            table.setdefault((tail, head), set()).add(relation + R)
    return table


def twin(facts: set[Fact], scores: dict[str, np.ndarray], triple: Fact) -> dict[str, float]:
    """All features of a triple; `scores` by side have shape (heads, relations, tails)."""
    head, relation, tail = triple
    own = triple in facts
    loops = any(h == t for h, r, t in facts if r == relation)
    found: dict[str, float] = {}
    for side, column in SIDES.items():
        other, given = {"tail": "head", "head": "tail"}[side], triple[2 - column]
        line = scores[side][head, relation] if side == "tail" else scores[side][:, relation, tail]
        mean, std, score = line.mean(), line.std(), line[triple[column]]
        known = answers(facts, relation, given, side)
        rivals = [
            line[entity]
            for entity in members(facts, relation, side)
            if entity not in known and entity != triple[column] and (loops or entity != given)
        ]
        count = len(known) - own
        others = [line[entity] for entity in known if entity != triple[column]]
        role = relation + (R if other == "tail" else 0)
        # Of who has the role by this fact alone, it is asked whether the other roles make it likely.
        by_roles = best_of_items(roles(facts), given, role, own and head != tail, N)
        found |= {
            f"z_{side}": math.asinh((score - mean) / std),
            f"score_{side}": score,
            f"rivals_{side}": score - max([mean - 3 * std, *rivals]),
            f"known_{side}": score - np.mean(others) if count else 0.0,
            f"answers_{side}": math.log1p(count),
            f"more_{side}": more_answers(facts, relation, count, side),
            f"fit_{other}": CERTAIN if count else by_roles,
        }
    for name in ("z", "score", "rivals", "more"):
        found[name] = found[f"{name}_tail"] + found[f"{name}_head"]
    for name in ("rivals", "fit"):
        found[f"{name}_least"] = min(found[f"{name}_tail"], found[f"{name}_head"])
    for name, entity in (("head", head), ("tail", tail)):
        found[f"degree_{name}"] = math.log1p(sum(entity in (h, t) for h, _, t in facts) - own)
    link = best_of_items(links(facts), (head, tail), relation, own, len(links(facts)))
    found["linked"] = float(link > -CERTAIN)
    found["link"] = link + CERTAIN if link > -CERTAIN else 0.0
    found["density"] = math.log((sum(r == relation for _, r, _ in facts) + 0.5) / N**2)
    return found


def evidence_of(facts: list[Fact], reciprocal: bool = True) -> Evidence:
    model = tiny_model("complex", "identity", seed=3, reciprocal=reciprocal)
    return Evidence(np.array(facts), Scorer(model, exact=True), R)


def scores_of(evidence: Evidence) -> dict[str, np.ndarray]:
    """Return the scores of all triples as either side asks for them, by the rows."""
    model = evidence.scorer.model
    rows, relations = model.entity_rows().detach(), model.relation_rows().detach()
    heads, ids, tails = torch.as_tensor(EVERY).T
    forward = model.score_rows(rows[heads], relations[ids], rows[tails])
    backward = model.score_rows(rows[tails], relations[ids + R], rows[heads]) if model.reciprocal else forward
    return {side: own.numpy().reshape(N, R, N) for side, own in (("tail", forward), ("head", backward))}


@pytest.mark.parametrize("reciprocal", [True, False])
def test_features_are_what_they_are_defined_as(reciprocal: bool) -> None:
    evidence = evidence_of([*FACTS, FACTS[0]], reciprocal)  # a fact given twice counts once
    assert evidence.n_facts == len(FACTS)
    facts, scores, found = set(FACTS), scores_of(evidence), evidence.features(EVERY)
    wanted = [twin(facts, scores, tuple(triple)) for triple in EVERY.tolist()]
    for column, name in enumerate(FEATURES):
        expected = np.array([features[name] for features in wanted])
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_features_do_not_depend_on_what_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evidence_of(FACTS).features(EVERY)
    monkeypatch.setattr("staypositive.probability.evidence.SCORES", 8)
    evidence, order = evidence_of(FACTS), np.random.default_rng(0).permutation(len(EVERY))
    for rows in np.array_split(order, 29):
        np.testing.assert_allclose(evidence.features(EVERY[rows]), whole[rows], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(evidence.features(EVERY), whole, rtol=1e-9, atol=1e-9)


UNTOUCHED = (
    "z_tail", "z_head", "z", "score_tail", "score_head", "score", "rivals_tail", "rivals_head", "known_tail",
    "known_head", "answers_tail", "answers_head", "degree_head", "degree_tail", "linked",
)  # fmt: skip
"""Features that a fact has as if it were not known: rates over the whole relation count it still."""


def test_a_fact_looks_as_it_would_if_it_were_missing() -> None:
    evidence, seen = evidence_of(FACTS), 0
    for fact in FACTS:
        others = [other for other in FACTS if other != fact]
        known, missing = (own.features(np.array([fact]))[0] for own in (evidence, evidence_of(others)))
        both_remain = all(members(set(FACTS), fact[1], side) == members(set(others), fact[1], side) for side in SIDES)
        loops = fact[0] == fact[2]
        for column, name in enumerate(FEATURES):
            if name in UNTOUCHED and (not name.startswith("rivals") or (both_remain and not loops)):
                assert known[column] == pytest.approx(missing[column], rel=1e-6, abs=1e-6), (fact, name)
                seen += 1
    assert seen > 13 * len(FACTS)


def test_unknown_pairs_have_no_loops_unless_facts_do() -> None:
    evidence = evidence_of(FACTS)
    for relation in range(R):
        triples = EVERY[EVERY[:, 1] == relation]
        known = np.array([tuple(triple) in set(FACTS) for triple in triples.tolist()])
        expected = ~known & ((triples[:, 0] != triples[:, 2]) | (relation == 1))
        np.testing.assert_array_equal(evidence.is_unknown(triples, relation), expected)
        np.testing.assert_array_equal(evidence.holds(triples), known)


def test_members_neighbours_and_likely_pairs() -> None:
    evidence, facts = evidence_of(FACTS), set(FACTS)
    for relation in range(R):
        for side in SIDES:
            assert evidence.members(relation, side).tolist() == members(facts, relation, side)
    owners, found = evidence.links.neighbours(np.array([6, 0, 2]))
    neighbours = {(place, e) for place, e in zip(owners.tolist(), found.tolist(), strict=True)}
    expected = {
        (place, other)
        for place, entity in enumerate((6, 0, 2))
        for h, _, t in FACTS
        for one, other in ((h, t), (t, h))
        if one == entity
    }
    assert neighbours == expected
    table, least = links(facts), -1.0
    for relation in range(R):
        pairs = set(zip(*(part.tolist() for part in evidence.links.likely_pairs(relation, least)), strict=True))
        assert pairs == {pair for pair in table if best_of_items(table, pair, relation, 0, len(table)) >= least}
