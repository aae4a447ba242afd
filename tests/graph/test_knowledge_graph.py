"""Vocabularies, splits, graphs and the index of answers."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest

from graphs import encode
from staypositive.errors import DataError, InputError, UnknownLabelError
from staypositive.graph import KnowledgeGraph, Source, Split, Vocabulary, drop_unseen, read_folder, triple_keys

# --- vocabularies ------------------------------------------------------------------------------------------------


def test_vocabulary_maps_both_ways():
    words = Vocabulary("entity", ["b", "a", "c"])
    assert [words.id(label) for label in words] == [0, 1, 2]
    assert words[1] == "a"
    assert len(words) == 3
    assert "c" in words
    assert "d" not in words
    ids = words.ids(["c", "b", "c"])
    assert ids.tolist() == [2, 0, 2]
    assert ids.dtype == np.int64
    assert words.ids([]).shape == (0,)


def test_vocabularies_compare_by_kind_and_labels():
    words = Vocabulary("entity", ["a", "b"])
    assert words == Vocabulary("entity", iter(["a", "b"]))
    assert hash(words) == hash(Vocabulary("entity", ["a", "b"]))
    assert words != Vocabulary("relation", ["a", "b"])
    assert words != Vocabulary("entity", ["b", "a"])
    assert words != ("a", "b")


def test_vocabulary_refuses_a_label_twice():
    with pytest.raises(InputError, match="the relation labels are not distinct"):
        Vocabulary("relation", ["a", "b", "a"])


COUNTRIES = Vocabulary("entity", ["France", "Franconia", "Germany", "French Guiana", "Spain", "São Tomé", "Straße"])


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("france", "France"),
        ("FRANCE", "France"),
        ("Frnace", "France"),
        ("Germ", "Germany"),
        ("sp", "Spain"),
        ("french g", "French Guiana"),
        ("SAO TOME", "São Tomé"),
        ("STRASSE", "Straße"),
    ],
)
def test_an_unknown_label_comes_with_suggestions(asked, first):
    with pytest.raises(UnknownLabelError) as caught:
        COUNTRIES.id(asked)
    error = caught.value
    assert (error.kind, error.label, error.suggestions[0]) == ("entity", asked, first)
    assert str(error).startswith(f"no entity is called {asked!r} in this graph. Did you mean {first!r}")


def test_three_suggestions_are_enough():
    words = Vocabulary("entity", ["Paris, Texas", "Paris-Plage sur Mer", "Parisa", "Paris", "Pariss"])
    assert words.nearest("paris")[0] == "Paris"
    assert len(words.nearest("paris")) == 3
    assert words.nearest("paris", most=1) == ["Paris"]
    assert sorted(words.nearest("paris", most=9)) == sorted(words)


def test_close_spellings_do_not_hide_the_label_that_begins_with_the_name():
    words = Vocabulary("entity", ["Spanish", "Mari", "Pakistan", "Paris, France"])
    assert "Paris, France" in words.nearest("Paris")


def test_a_prefix_finds_the_shortest_names_first():
    words = Vocabulary("entity", ["New Caledonia, Pacific", "New York City, United States", "New Delhi, India"])
    assert words.nearest("new") == ["New Delhi, India", "New Caledonia, Pacific", "New York City, United States"]


@pytest.mark.parametrize("asked", ["", "Zimbabwe"])
def test_nothing_alike_gives_no_hint(asked):
    with pytest.raises(UnknownLabelError) as caught:
        COUNTRIES.ids(["France", asked])
    assert caught.value.suggestions == ()
    assert str(caught.value) == f"no entity is called {asked!r} in this graph."


# --- splits ------------------------------------------------------------------------------------------------------


def test_a_split_without_labels_is_all_facts():
    split = Split(np.array([[0, 1, 2], [2, 1, 0]], dtype=np.int32))
    assert split.triples.dtype == np.int64
    assert split.triples.flags["C_CONTIGUOUS"]
    assert len(split) == 2
    assert split.signs.tolist() == [1, 1]
    assert split.facts.tolist() == [[0, 1, 2], [2, 1, 0]]
    assert split.falsehoods.tolist() == []
    assert not split.has_negatives
    assert split.take(np.array([False, True])).triples.tolist() == [[2, 1, 0]]


def test_a_split_with_labels():
    split = Split(np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]]), np.array([1, -1, 1]))
    assert split.labels is not None
    assert split.labels.dtype == np.int8
    assert split.signs.tolist() == [1, -1, 1]
    assert split.facts.tolist() == [[0, 0, 0], [2, 2, 2]]
    assert split.falsehoods.tolist() == [[1, 1, 1]]
    assert split.has_negatives
    taken = split.take(np.array([False, True, True]))
    assert taken.triples.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert taken.signs.tolist() == [-1, 1]
    assert not split.take(np.array([True, False, True])).has_negatives


def test_an_empty_split():
    split = Split(np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int8))
    assert len(split) == len(split.facts) == len(split.falsehoods) == 0
    assert not split.has_negatives


@pytest.mark.parametrize("labels", [[1], [1, 1, 1], [1, 0], [2, 1], [[1], [1]], []])
def test_labels_are_one_sign_for_each_triple(labels):
    with pytest.raises(InputError, match="one \\+1 or -1 for each triple"):
        Split(np.zeros((2, 3), dtype=np.int64), np.array(labels, dtype=np.int8))


# --- graphs ------------------------------------------------------------------------------------------------------


def test_encode_numbers_train_first(build, rows_of):
    graph = build(["b r c"], ["a r b", "d q b"], ["e p a"])
    assert graph.entities.labels == ("b", "c", "a", "d", "e")
    assert graph.relations.labels == ("r", "q", "p")
    assert graph.train.triples.tolist() == [[0, 0, 1]]
    assert graph.valid.triples.tolist() == [[2, 0, 0], [3, 1, 0]]
    assert graph.test.triples.tolist() == [[4, 2, 2]]
    assert (graph.entities.kind, graph.relations.kind) == ("entity", "relation")
    assert rows_of(graph, "valid") == [("a", "r", "b", 1), ("d", "q", "b", 1)]


def test_encode_keeps_entities_and_relations_apart(build):
    graph = build(["a a a"])
    assert (graph.entities.labels, graph.relations.labels) == (("a",), ("a",))


def test_encode_gives_what_train_has_the_lowest_ids(build):
    graph = build(["c r b", "a q d", "c q a"], ["x r c"], ["y q x"])
    assert sorted(graph.entities.ids("abcd")) == [0, 1, 2, 3]
    assert graph.entities.ids("xy").tolist() == [4, 5]


def test_encode_keeps_sources():
    source = Source("train.txt", "0" * 64, 1)
    assert encode("toy", {"train": (["a"], ["r"], ["b"])}, {}, [source]).sources == (source,)


def test_counts_and_splits(build):
    graph = build(["a r b", "a r b", "b q a"], ["a r a 1", "b r b -1"], ["c r a"])
    assert graph.counts() == {"entities": 3, "relations": 2, "train": 3, "valid": 2, "test": 1}
    assert graph.split("valid") is graph.valid
    with pytest.raises(InputError, match="expected a split among train, valid, test, got 'dev'"):
        graph.split("dev")


def test_facts_of_some_splits_or_of_all(build):
    graph = build(["a r b"], ["a r a 1", "b r b -1"], ["b r a"])
    assert graph.facts("valid").tolist() == [[0, 0, 0]]
    assert graph.facts("test", "train").tolist() == [[1, 0, 0], [0, 0, 1]]
    assert graph.facts().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    with pytest.raises(InputError, match="got 'all'"):
        graph.facts("train", "all")


def test_seen_and_unseen(build):
    graph = build(["a r b"], ["a r b", "a q b", "c r a", "a r c", "c q d"])
    assert graph.seen_entities.tolist() == [True, True, False, False]
    assert graph.seen_relations.tolist() == [True, False]
    assert graph.has_unseen(graph.valid.triples).tolist() == [False, True, True, True, True]
    assert not graph.has_unseen(graph.train.triples).any()


def test_a_graph_needs_facts_to_train_on(build):
    with pytest.raises(DataError, match="graph 'bare' has no training triples"):
        build([], ["a r b"], name="bare")


def test_a_graph_refuses_falsehoods_in_train(build):
    with pytest.raises(DataError, match="graph 'toy' has training triples labelled -1"):
        build(["a r b 1", "b r a -1"])
    assert len(build(["a r b 1", "b r a 1"]).train) == 2


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("triple", [(2, 0, 0), (0, 1, 0), (0, 0, 2), (-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_a_graph_refuses_ids_outside_its_vocabularies(build, split, triple):
    graph = build(["a r b"])
    with pytest.raises(InputError, match=f"split {split!r} of graph 'toy' has an id outside the vocabularies"):
        replace(graph, **{split: Split(np.array([[0, 0, 1], triple]))})


def test_keys_name_every_possible_triple_once():
    entities, relations = Vocabulary("entity", "abcd"), Vocabulary("relation", "pqr")
    every = np.array([(h, r, t) for h in range(4) for r in range(3) for t in range(4)])
    graph = KnowledgeGraph("toy", entities, relations, Split(every), Split(every[:0]), Split(every[:0]))
    assert sorted(graph.keys(every).tolist()) == list(range(48))
    assert graph.keys(every[[5, 5]]).tolist() == [5, 5]
    assert graph.keys(every[:0]).tolist() == []


class Many(Vocabulary):
    """A vocabulary that says it has more labels than would fit in memory."""

    size = 1

    def __len__(self):
        return self.size


def of_size(kind: str, size: int) -> Many:
    vocabulary = Many(kind, ["one"])
    vocabulary.size = size
    return vocabulary


def test_keys_stop_short_of_what_64_bits_can_name():
    last = np.array([[2**31 - 1, 0, 2**31 - 1]])
    nothing = Split(np.empty((0, 3)))
    fits = KnowledgeGraph("big", of_size("entity", 2**31), of_size("relation", 1), Split(last), nothing, nothing)
    assert fits.keys(last).tolist() == [2**62 - 1]
    with pytest.raises(InputError, match="more possible triples than a 64-bit number can name"):
        replace(fits, relations=of_size("relation", 2)).keys(last)


# --- fingerprints ------------------------------------------------------------------------------------------------


def test_fingerprint_is_the_same_for_every_layout(tmp_path):
    train, valid, false, test = "Å\tr\tb\nb\tq\tnan\n", "b\tr\tÅ\n", "Å\tr\tÅ\n", "b\tq\tÅ\n"

    def folder(name: str, **files: bytes) -> str:
        (tmp_path / name).mkdir()
        for stem, data in files.items():
            (tmp_path / name / stem.replace("__", ".")).write_bytes(data)
        return read_folder(tmp_path / name).fingerprint

    def comma(text: str) -> bytes:
        return ("\ufeffhead,relation,tail\r\n" + text.replace("\t", ",").replace("\n", "\r\n")).encode()

    plain = folder(
        "plain",
        train__txt=train.encode(),
        valid__txt=valid.encode(),
        valid_negatives__txt=false.encode(),
        test__txt=test.encode(),
    )
    packed = folder(
        "packed",
        train__csv__gz=gzip.compress(comma(train)),
        valid__csv=comma(valid),
        valid_negatives__csv__gz=gzip.compress(comma(false)),
        test__csv=comma(test),
    )
    signed = folder(
        "signed",
        train__tsv=train.replace("\n", "\t1\n\n").encode(),
        valid__tsv=(valid.replace("\n", "\t1\n") + false.replace("\n", "\t-1")).encode(),
        test__tsv=test.replace("\n", "\t1\n").encode(),
    )
    assert plain == packed == signed
    assert len(plain) == 64


def test_fingerprint_leaves_out_name_sources_and_notes(build):
    graph = build(["a r b"], ["a r b"], ["a r b"])
    assert replace(graph, name="x", sources=(Source("f", "0", 1),), notes=("n",)).fingerprint == graph.fingerprint
    assert drop_unseen(graph, name="clean").fingerprint == graph.fingerprint


def test_fingerprint_changes_with_what_the_graph_says(build):
    row = "a r b"
    graphs = [
        build([row, "b r a"], ["a r a 1"], ["b r b"]),
        build([row, "b r A"], ["a r a 1"], ["b r b"]),
        build([row, "b R a"], ["a r a 1"], ["b r b"]),
        build(["b r a", row], ["a r a 1"], ["b r b"]),
        build([row, "b r a"], ["a r a -1"], ["b r b"]),
        build([row, "b r a"], ["b r b"], ["a r a 1"]),
        build([row, "b r a"], ["a r a 1"], []),
        build([row, "b r a", row], ["a r a 1"], ["b r b"]),
        build([row, "b r b"], ["a r a 1"], ["b r a"]),
    ]
    assert len({graph.fingerprint for graph in graphs}) == len(graphs)
    assert build([row], [row + " 1"]).fingerprint == build([row], [row]).fingerprint


# --- the index of answers ----------------------------------------------------------------------------------------


def test_splits_refuse_what_is_not_integer_triples():
    for triples in (np.zeros((3, 2), dtype=np.int64), np.zeros(3, dtype=np.int64), np.full((1, 3), 0.9)):
        with pytest.raises(InputError, match=r"integers of shape \(n, 3\)"):
            Split(triples)
    with pytest.raises(InputError, match="labels"):
        Split(np.zeros((1, 3), dtype=np.int64), np.array([257]))


def test_graphs_compare_by_identity(build):
    one, other = build(["a r b"]), build(["a r b"])
    assert one == one
    assert one != other
    assert len({one, other}) == 2


# --- how it is shown ---------------------------------------------------------------------------------------------


def test_a_graph_is_one_line(build):
    graph = build(["a r b", "b r a"], ["a r a 1", "b r b -1"], name="two")
    said = "KnowledgeGraph('two': 2 entities, 1 relations, 2 train facts, 1 valid facts, 0 test facts)"
    assert repr(graph) == str(graph) == said


def test_a_graph_is_a_small_table_in_a_notebook_and_labels_are_escaped(build):
    graph = build(["<script> r&d b", "b r&d b"], name="<b>")
    shown = graph._repr_html_()
    assert "<caption>&lt;b&gt;</caption>" in shown
    assert "<td>&lt;script&gt; · r&amp;d · b</td>" in shown
    assert "<tr><th>train facts</th><td>2</td></tr>" in shown
    assert "<script>" not in shown


def test_triple_keys_are_equal_exactly_for_equal_triples():
    every = np.array([[h, r, t] for h in range(4) for r in range(3) for t in range(4)])
    assert triple_keys(every, 4, 3).tolist() == list(range(48))
    assert len(triple_keys(every[:0], 4, 3)) == 0
    with pytest.raises(InputError, match="more possible triples than a 64-bit number can name"):
        triple_keys(every, 2**31, 2)
