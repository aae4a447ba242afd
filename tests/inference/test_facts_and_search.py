"""Facts of an entity and labels by what is typed of them, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import staypositive as sp
from graphs import encode
from staypositive.inference import FactIndex, LabelSearch


@pytest.fixture(scope="module")
def geo() -> sp.KnowledgeGraph:
    return sp.load_graph("geo")


def test_rows_are_the_facts_that_have_the_entity(geo: sp.KnowledgeGraph) -> None:
    index = FactIndex(geo)
    for label in ("France", "Euro (EUR)", "Paris, France", "Antarctica"):
        own = geo.entities.id(label) if label in geo.entities else 0
        expected = [i for i, (h, _, t) in enumerate(geo.facts().tolist()) if own in (h, t)]
        assert index.rows_of(own).tolist() == expected
        assert index.degrees[own] == len(expected)
    assert index.splits.tolist() == [0] * len(geo.train.facts) + [1] * 1219 + [2] * 1219


def test_a_fact_with_itself_counts_once() -> None:
    graph = encode("loop", {"train": (("a", "a"), ("likes", "likes"), ("a", "b"))}, {})
    index = FactIndex(graph)
    assert index.rows_of(0).tolist() == [0, 1]
    assert index.degrees.tolist() == [2, 1]
    found = index.neighbourhood(0, 5)
    assert found.entities.tolist() == [0, 1]
    assert found.facts.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_a_neighbourhood_is_all_facts_among_its_entities(geo: sp.KnowledgeGraph) -> None:
    index = FactIndex(geo)
    france = geo.entities.id("France")
    found = index.neighbourhood(france, 9)
    chosen = set(found.entities.tolist())
    assert found.entities[0] == france
    assert len(chosen) == 10
    expected = {fact for fact in map(tuple, geo.facts().tolist()) if fact[0] in chosen and fact[2] in chosen}
    assert set(map(tuple, found.facts.tolist())) == expected
    own = [fact for fact in geo.facts().tolist() if france in (fact[0], fact[2])]
    neighbours = {h if t == france else t for h, _, t in own}
    assert found.left_out == len(neighbours) - 9
    # Relations take turns: France has 7 kinds of facts, and nine places show them all.
    assert {r for _, r, _ in own} == {r for h, r, t in found.facts.tolist() if france in (h, t)}
    assert FactIndex(geo).neighbourhood(france, 10_000).left_out == 0


def test_search_ranks_whole_then_beginning_then_word_then_inside() -> None:
    labels = ["Parish", "Grand Paris", "Paris", "Comparison", "Lima", "Parisian café"]
    search = LabelSearch(labels, [5, 1, 1, 1, 1, 9])
    assert [labels[i] for i in search.find("paris", 10)] == [
        "Paris",
        "Parisian café",
        "Parish",
        "Grand Paris",
        "Comparison",
    ]
    assert [labels[i] for i in search.find("PARIS", 2)] == ["Paris", "Parisian café"]
    assert [labels[i] for i in search.find("cafe")] == ["Parisian café"]
    assert search.find("") == search.find("   ") == search.find("tokyo") == []
    assert [labels[i] for i in search.find("a.i")] == []  # what is typed is no pattern


def test_search_finds_what_a_scan_finds(geo: sp.KnowledgeGraph) -> None:
    search = LabelSearch(geo.entities.labels)
    for typed in ("san", "(eu", "new york", "são", "'", "a"):
        found = search.find(typed, 6000)
        plain = {i for i, label in enumerate(geo.entities) if _folded(typed) in _folded(label)}
        assert set(found) == plain
        assert len(found) == len(set(found))


def _folded(text: str) -> str:
    import unicodedata

    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()


def test_a_label_with_a_line_break_is_one_label() -> None:
    search = LabelSearch(["one\ntwo", "two"])
    assert search.find("one two") == [0]
    assert search.find("two") == [1, 0]
    assert np.array(search.find("ne\ntw")).tolist() == [0]
