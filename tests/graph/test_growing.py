"""Facts added to a graph: ids stay, errors name the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from staypositive.errors import DataError, InputError
from staypositive.graph import add_facts


def test_new_entities_come_last_and_known_facts_are_passed_over(planted: sp.KnowledgeGraph) -> None:
    h, r, t = planted.test.facts[0].tolist()
    known = (planted.entities[h], planted.relations[r], planted.entities[t])
    new = ("new", "ally", "p0")
    grown = add_facts(planted, [known, new, new, ("p0", "ally", "p0")])
    assert grown.entities.labels == (*planted.entities.labels, "new")
    assert grown.relations == planted.relations
    added = grown.train.triples[len(planted.train) :]
    ally, p0 = grown.relations.id("ally"), grown.entities.id("p0")
    assert added.tolist() == [[40, ally, p0], [p0, ally, p0]]
    for split in ("valid", "test"):
        assert np.array_equal(grown.split(split).triples, planted.split(split).triples)
        assert np.array_equal(grown.split(split).signs, planted.split(split).signs)
    assert grown.sources[-1].rows == 4
    assert "2 facts and 1 entities were added" in grown.notes[-1]


def test_from_a_file(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text('head,relation,tail\n"x, y",ally,p0\n', "utf-8")
    grown = add_facts(planted, tmp_path / "more.csv")
    assert grown.entities[40] == "x, y"
    assert grown.sources[-1].name == "more.csv"
    assert len(add_facts(planted, tmp_path / "more.csv", header=True).train) == len(planted.train) + 1


def test_from_a_frame(planted: sp.KnowledgeGraph) -> None:
    frame = pd.DataFrame({"tail": ["p0"], "relation": ["ally"], "head": ["new"], "year": [2020]})
    grown = add_facts(planted, frame)
    assert grown.entities[40] == "new"
    assert grown.train.triples[-1].tolist() == [40, grown.relations.id("ally"), grown.entities.id("p0")]


def test_errors_name_file_and_line(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.tsv"
    path.write_text("new\tally\tp0\nnew\talli\tp1\n", "utf-8")
    with pytest.raises(DataError, match=r"more.tsv:2: no relation is called 'alli'.*'ally'.*known relations"):
        add_facts(planted, path)
    path.write_text("new\tally\tp0\t1\nnew\tally\tp1\t-1\n", "utf-8")
    with pytest.raises(DataError, match=r"more.tsv:2: .*labelled -1"):
        add_facts(planted, str(path))
    with pytest.raises(InputError, match="row 1: no relation is called 'x'"):
        add_facts(planted, [("a", "x", "b")])
    with pytest.raises(InputError, match="no triples here; expected a triple"):
        add_facts(planted, [])
    with pytest.raises(InputError, match=r"row 1: expected a triple \(head, relation, tail\)"):
        add_facts(planted, [("a", "ally")])
    with pytest.raises(InputError, match="row 2: the tail is empty"):
        add_facts(planted, iter([("a", "ally", "p0"), ("a", "ally", " ")]))
