"""Splitting one file: nothing unseen, nothing leaked, the shares kept where they can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import labelled
from staypositive.errors import DataError, SettingError
from staypositive.graph import Source, inspect_graph, split_triples

SPLITS = ("train", "valid", "test")


def columns_of(rows):
    return tuple([row[i] for row in rows] for i in range(3))


def signs_of(rows):
    return np.array([row[3] for row in rows], dtype=np.int8)


def dense(entities: int, relations: int = 2) -> list[tuple[str, str, str]]:
    return [(f"e{h}", f"r{r}", f"e{t}") for h in range(entities) for r in range(relations) for t in range(entities)]


names = st.sampled_from("abcdef")
some_rows = st.lists(st.tuples(names, st.sampled_from("pqr"), names, st.sampled_from([1, 1, 1, -1])), max_size=40)
rows_with_a_fact = st.tuples(names, st.sampled_from("pqr"), names, st.just(1)).flatmap(
    lambda fact: some_rows.map(lambda rows: [*rows, fact])
)
some_ratios = st.sampled_from([(0.8, 0.1, 0.1), (0.2, 0.4, 0.4), (0.01, 0.98, 0.01), (0.5, 0, 0.5), (0.5, 0.5, 0)])


@settings(max_examples=100, deadline=None)
@given(rows=rows_with_a_fact, ratios=some_ratios, seed=st.integers(0, 5))
def test_a_split_loses_nothing_and_leaks_nothing(rows, ratios, seed, rows_of):
    graph = split_triples("toy", labelled(columns_of(rows), signs_of(rows)), ratios, seed)
    parts = {name: rows_of(graph, name) for name in SPLITS}
    # Every row is in one place, in the order of the file.
    assert Counter(row for part in parts.values() for row in part) == Counter(rows)
    for part in parts.values():
        places = [rows.index(row) for row in dict.fromkeys(part)]
        assert places == sorted(places)
    # Copies are together, so no triple with its sign is in two splits.
    homes = [set(part) for part in parts.values()]
    assert not homes[0] & homes[1]
    assert not homes[0] & homes[2]
    assert not homes[1] & homes[2]
    # Train has facts alone, and all that facts mention.
    assert all(sign == 1 for *_, sign in parts["train"])
    facts = [row for row in rows if row[3] == 1]
    assert {row[1] for row in parts["train"]} == {row[1] for row in facts}
    assert {row[i] for row in parts["train"] for i in (0, 2)} == {row[i] for row in facts for i in (0, 2)}
    # A split without a share has nothing.
    assert all(share or not parts[name] for name, share in zip(SPLITS, ratios, strict=True))


@settings(max_examples=60, deadline=None)
@given(rows=rows_with_a_fact, ratios=some_ratios, seed=st.integers(0, 5))
def test_facts_alone_leave_no_entity_or_relation_unseen(rows, ratios, seed):
    graph = split_triples("toy", labelled(columns_of(rows)), ratios, seed)
    assert graph.seen_entities.all()
    assert graph.seen_relations.all()
    assert sum(inspect_graph(graph).leaks.values()) == 0
    assert graph.valid.labels is graph.test.labels is None


@pytest.mark.parametrize(
    ("ratios", "counts"),
    [
        ((0.8, 0.1, 0.1), [640, 80, 80]),
        ((0.5, 0.3, 0.2), [400, 240, 160]),
        ((0.7, 0.0, 0.3), [560, 0, 240]),
        ((0.9, 0.1, 0.0), [720, 80, 0]),
        ((1.0, 0.0, 0.0), [800, 0, 0]),
    ],
)
def test_the_shares_are_kept_where_they_can_be(ratios, counts):
    graph = split_triples("toy", labelled(columns_of(dense(20))), ratios)
    assert [len(graph.split(name)) for name in SPLITS] == counts


def test_the_default_is_eight_one_one():
    assert split_triples("toy", labelled(columns_of(dense(20)))).counts()["train"] == 640


def test_shares_count_distinct_facts():
    rows = dense(10)
    copied = rows + rows[:100] * 3
    graph = split_triples("toy", labelled(columns_of(copied)), (0.6, 0.2, 0.2))
    assert [len(np.unique(graph.keys(graph.split(name).triples))) for name in SPLITS] == [120, 40, 40]
    assert sum(len(graph.split(name)) for name in SPLITS) == 500


def test_where_train_needs_more_valid_and_test_shrink_alike():
    chain = [(f"e{i}", "r", f"e{i + 1}") for i in range(40)]  # every end of a chain is an entity's only other fact
    extra = [("e0", "r", f"e{i}") for i in range(2, 22)]
    graph = split_triples("toy", labelled(columns_of(chain + extra)), (0.02, 0.49, 0.49))
    valid, test = len(graph.valid), len(graph.test)
    assert graph.seen_entities.all()
    assert valid + test > 0
    assert abs(valid - test) <= 1
    assert len(graph.train) > 0.02 * 60


def test_a_tree_stays_whole_in_train():
    star = [("hub", "r", f"leaf{i}") for i in range(10)]
    assert split_triples("toy", labelled(columns_of(star))).counts() == {
        "entities": 11,
        "relations": 1,
        "train": 10,
        "valid": 0,
        "test": 0,
    }


def test_the_seed_decides():
    triples = labelled(columns_of(dense(12)))
    first = split_triples("toy", triples, seed=1)
    assert split_triples("toy", triples, seed=1).fingerprint == first.fingerprint
    assert split_triples("toy", triples, seed=2).fingerprint != first.fingerprint
    assert split_triples("toy", triples).fingerprint == split_triples("toy", triples, seed=0).fingerprint


def test_negatives_are_shared_out_between_valid_and_test(rows_of):
    rows = [(*row, 1) for row in dense(10)] + [("e0", "r0", f"n{i}", -1) for i in range(400)]
    graph = split_triples("toy", labelled(columns_of(rows), signs_of(rows)), (0.8, 0.15, 0.05))
    valid, test = len(graph.valid.falsehoods), len(graph.test.falsehoods)
    assert valid + test == 400
    assert 270 < valid < 330  # three quarters of 400, give or take three standard deviations
    assert (len(graph.valid.facts), len(graph.test.facts)) == (30, 10)
    again = split_triples("toy", labelled(columns_of(rows), signs_of(rows)), (0.8, 0.15, 0.05))
    assert rows_of(again, "test") == rows_of(graph, "test")


def test_name_and_sources_are_kept():
    source = Source("x.tsv", "0" * 64, 1)
    graph = split_triples("mine", replace(labelled((["a"], ["r"], ["b"])), source=source))
    assert (graph.name, graph.sources) == ("mine", (source,))


@pytest.mark.parametrize(
    "ratios",
    [
        (0.8, 0.2),
        (0.7, 0.1, 0.1, 0.1),
        (0, 0.5, 0.5),
        (1.2, -0.1, -0.1),
        (float("nan"), 0.5, 0.5),
        (float("inf"), 0, 0),
    ],
)
def test_bad_ratios(ratios):
    with pytest.raises(SettingError, match=r"a split is three shares such as 0.8,0.1,0.1") as caught:
        split_triples("toy", labelled((["a"], ["r"], ["b"])), ratios)
    assert str(ratios) in str(caught.value)


@pytest.mark.parametrize("ratios", [(0.8, 0.1, 0.2), (0.5, 0.2, 0.2), (80, 10, 10)])
def test_ratios_that_do_not_add_up(ratios):
    with pytest.raises(SettingError, match="must add up to 1") as caught:
        split_triples("toy", labelled((["a"], ["r"], ["b"])), ratios)
    assert ", ".join(map(str, ratios)) in str(caught.value)


def test_ratios_may_be_off_by_rounding():
    assert len(split_triples("toy", labelled(columns_of(dense(10))), (0.7, 0.2, 0.1)).train) == 140
    assert len(split_triples("toy", labelled(columns_of(dense(10))), (1 / 3, 1 / 3, 1 / 3)).test) == 67


def test_negatives_need_a_share():
    columns, signs = (["a", "a"], ["r", "r"], ["b", "a"]), np.array([1, -1], dtype=np.int8)
    with pytest.raises(SettingError, match="labels some triples -1, which belong in valid or test"):
        split_triples("toy", labelled(columns, signs), (1, 0, 0))
    assert len(split_triples("toy", labelled(columns), (1, 0, 0)).train) == 2


def test_negatives_alone_are_no_graph():
    with pytest.raises(DataError, match="no training triples"):
        split_triples("toy", labelled((["a"], ["r"], ["b"]), np.array([-1], dtype=np.int8)))
