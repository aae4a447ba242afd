"""The paper's cleaning rule, and the report of what is odd about a graph."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import encode
from staypositive.graph import KnowledgeGraph, Split, Vocabulary, drop_unseen, inspect_graph

# --- cleaning ----------------------------------------------------------------------------------------------------


@pytest.fixture
def dirty(build):
    return build(
        ["a r b", "b q c", "a r b"],
        ["a q c 1", "x r a 1", "a r x -1", "c r a -1", "a new b 1"],
        ["a r y", "b r a", "y new x"],
    )


def test_cleaning_by_hand(dirty, rows_of):
    clean = drop_unseen(dirty)
    assert rows_of(clean, "train") == [("a", "r", "b", 1), ("b", "q", "c", 1), ("a", "r", "b", 1)]
    assert rows_of(clean, "valid") == [("a", "q", "c", 1), ("c", "r", "a", -1)]
    assert rows_of(clean, "test") == [("b", "r", "a", 1)]
    assert clean.counts() == {"entities": 3, "relations": 2, "train": 3, "valid": 2, "test": 1}
    assert clean.test.labels is None
    assert clean.notes == ("5 valid and test triples with unseen entities dropped",)


def test_cleaning_leaves_the_graph_it_was_given(dirty):
    before = dirty.fingerprint
    drop_unseen(dirty)
    assert dirty.fingerprint == before
    assert dirty.notes == ()


def test_cleaning_shrinks_the_vocabularies_in_the_old_order():
    entities, relations = Vocabulary("entity", ["u", "c", "v", "a", "b"]), Vocabulary("relation", ["p", "q", "r"])
    train, valid = Split(np.array([[4, 1, 1], [3, 2, 4]])), Split(np.array([[3, 1, 1], [0, 1, 1], [3, 0, 1]]))
    clean = drop_unseen(KnowledgeGraph("toy", entities, relations, train, valid, Split(np.array([[2, 1, 3]]))))
    assert clean.entities == Vocabulary("entity", ["c", "a", "b"])
    assert clean.relations == Vocabulary("relation", ["q", "r"])
    assert clean.train.triples.tolist() == [[2, 0, 0], [1, 1, 2]]
    assert clean.valid.triples.tolist() == [[1, 0, 0]]
    assert len(clean.test) == 0


def test_cleaning_can_rename(dirty):
    assert drop_unseen(dirty).name == "toy"
    assert drop_unseen(dirty, name="toyAM").name == "toyAM"


cell = st.sampled_from("abcdefgh")
table = st.lists(st.tuples(cell, st.sampled_from("pqr"), cell), max_size=12)


@settings(max_examples=60, deadline=None)
@given(train=table.filter(len), valid=table, test=table)
def test_cleaning_drops_what_is_unseen_and_nothing_else(train, valid, test, rows_of):
    tables = {"train": train, "valid": valid, "test": test}
    graph = encode(
        "toy", {name: tuple([row[i] for row in rows] for i in range(3)) for name, rows in tables.items()}, {}
    )
    clean = drop_unseen(graph)
    entities = {row[i] for row in train for i in (0, 2)}
    relations = {row[1] for row in train}
    for name, rows in tables.items():
        kept = [row for row in rows if {row[0], row[2]} <= entities and row[1] in relations]
        assert [row[:3] for row in rows_of(clean, name)] == kept
    assert set(clean.entities) == entities
    assert set(clean.relations) == relations
    assert drop_unseen(clean).fingerprint == clean.fingerprint
    assert sum(inspect_graph(clean).unseen_triples.values()) == 0


# --- quality -----------------------------------------------------------------------------------------------------


def test_a_clean_graph_says_nothing(build):
    report = inspect_graph(build(["a r b", "b r a"], ["a r a"], ["b r b"]))
    assert report.lines() == []
    assert all(n == 0 for counts in report.as_dict().values() for n in counts.values())


def test_a_graph_with_empty_splits_says_nothing(build):
    assert inspect_graph(build(["a r b"])).lines() == []


def test_duplicates(build):
    report = inspect_graph(
        build(["a r b", "a r b", "a r b", "b r a", "b r a"], ["a r a 1", "a r a 1", "b r b -1"], ["b r b"])
    )
    assert report.duplicates == {"train": 3, "valid": 1, "test": 0}
    assert report.lines()[:2] == ["3 duplicate triples in train (kept)", "1 duplicate triples in valid (kept)"]


def test_leaks_count_distinct_facts(build):
    report = inspect_graph(
        build(
            ["a r b", "b r a", "c r a"],
            ["a r b", "a r b", "a r c", "b r c"],
            ["a r b 1", "b r a 1", "a r c 1", "c r a -1", "c r c 1"],
        )
    )
    assert report.leaks == {"train/valid": 1, "train/test": 2, "valid/test": 2}
    assert [line for line in report.lines() if "too" in line] == [
        "1 triples of valid are facts of train too",
        "2 triples of test are facts of train too",
        "2 triples of test are facts of valid too",
    ]


def test_contradictions_with_any_split(build):
    report = inspect_graph(
        build(
            ["a r b", "b r a"],
            ["a r b -1", "b r b -1", "a r a 1"],
            ["b r b 1", "a r a -1", "b r a -1", "b r a -1", "c r a -1"],
        )
    )
    assert report.contradictions == {"valid": 2, "test": 3}
    assert report.leaks == {"train/valid": 0, "train/test": 0, "valid/test": 0}
    assert [line for line in report.lines() if "labelled" in line] == [
        "2 triples labelled -1 in valid are stated as facts as well",
        "3 triples labelled -1 in test are stated as facts as well",
    ]


def test_unseen(build):
    report = inspect_graph(
        build(["a r b"], ["x r a", "x r b", "y r x", "a r a"], ["z r a 1", "a new b -1", "a other w -1", "b r a 1"])
    )
    assert report.unseen_entities == {"valid": 2, "test": 2}
    assert report.unseen_relations == {"valid": 0, "test": 2}
    assert report.unseen_triples == {"valid": 3, "test": 3}
    assert report.lines() == [
        "3 triples of valid have one of 2 entities that train never has",
        "3 triples of test have one of 2 entities or 2 relations that train never has",
    ]


def test_large_counts_are_grouped(build):
    assert inspect_graph(build(["a r b"] * 1235)).lines() == ["1,234 duplicate triples in train (kept)"]


def test_a_report_can_be_written_as_json(build):
    report = inspect_graph(build(["a r b", "a r b"], ["a r b -1"], ["x q a"]))
    assert json.loads(json.dumps(report.as_dict())) == {
        "duplicates": {"train": 1, "valid": 0, "test": 0},
        "leaks": {"train/valid": 0, "train/test": 0, "valid/test": 0},
        "contradictions": {"valid": 1, "test": 0},
        "unseen_entities": {"valid": 0, "test": 1},
        "unseen_relations": {"valid": 0, "test": 1},
        "unseen_triples": {"valid": 0, "test": 1},
        "many_relations": {},
    }


def test_relations_that_are_nearly_as_many_as_the_entities(build):
    people = [(f"p{i}", f"p{i * 7 % 20}") for i in range(20)]
    swapped = inspect_graph(build([f"knows {a} {b}" for a, b in people]))
    assert swapped.many_relations == {"relations": 20, "entities": 21}
    (line,) = swapped.lines()
    assert line.startswith("20 relations beside 21 entities; if the columns are in another order than head, relation")
    assert "--columns" in line
    assert inspect_graph(build([f"{a} knows {b}" for a, b in people])).many_relations == {}


def test_many_relations_of_many_facts_each_are_as_they_should_be(build):
    rows = [f"n{a} r{r} n{b}" for a in range(5) for b in range(5) for r in range(9)]
    assert inspect_graph(build(rows)).many_relations == {}
    again = [f"n{a} n{r % 5}{'x' * (r // 5)} n{b}" for a in range(5) for b in range(5) for r in range(6)]
    assert inspect_graph(build(again)).many_relations == {"relations": 6, "entities": 5}
