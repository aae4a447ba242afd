"""Columns found by name, in any order, or as a caller says; and what is told of it."""

from __future__ import annotations

import gzip
import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from staypositive.errors import DataError, InputError, SettingError
from staypositive.graph import load_graph, read_triples
from staypositive.graph.readers import TableOptions, read_table
from staypositive.graph.readers.columns import FAMILIES, SHORT_FAMILIES

ROWS = [("Ada", "knows", "Grace"), ("Grace", "knows", "Alan"), ("Alan", "likes", "Ada")]
GERMAN = {"subject": "Name", "predicate": "Eigenschaft", "object": "Wert"}
ORDERS = list(itertools.permutations(range(3)))


def write(path: Path, rows: list[tuple[str, ...]], names: tuple[str, ...] = ()) -> Path:
    mark = "," if ".csv" in path.name else "\t"
    text = "".join(mark.join(row) + "\n" for row in [*([names] if names else []), *rows])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def rows_of(found: Any) -> list[tuple[str, ...]]:
    return list(zip(*found.columns, strict=True))


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="staypositive")


# --- by name -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz"])
@pytest.mark.parametrize("names", [*FAMILIES, ("Subject", "PREDICATE", " object ")], ids=lambda names: names[0])
def test_full_names_are_found_in_any_order(tmp_path: Path, order: Any, name: str, names: tuple[str, ...]) -> None:
    rows = [tuple(row[i] for i in order) for row in ROWS]
    path = write(tmp_path / name, rows, tuple(names[i] for i in order))
    assert rows_of(read_triples(path)) == ROWS
    assert rows_of(read_table(pd.DataFrame(rows, columns=[names[i] for i in order]))) == ROWS


@pytest.mark.parametrize("names", SHORT_FAMILIES, ids=lambda names: names[0])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_short_names_need_a_word_or_a_row_that_is_no_triple(tmp_path: Path, names: Any, order: Any) -> None:
    rows = [tuple(row[i] for i in order) for row in ROWS]
    header = tuple(names[i] for i in order)
    path = write(tmp_path / "x.tsv", rows, header)
    assert rows_of(read_triples(path)) == [header, *rows]
    assert rows_of(read_triples(path, header=True)) == ROWS
    wide = write(tmp_path / "y.tsv", [(*row, "0.5") for row in rows], (*header, "weight"))
    assert rows_of(read_triples(wide)) == ROWS
    assert read_triples(wide).weights.tolist() == [0.5] * 3  # type: ignore[union-attr]


def test_head_and_tail_of_one_family_go_together(tmp_path: Path) -> None:
    rows = [("file.txt", *row) for row in ROWS]
    path = write(tmp_path / "x.csv", rows, ("source", "subject", "predicate", "object"))
    assert rows_of(read_triples(path)) == ROWS
    assert read_triples(path).layout.endswith("tail = object (4); not read: source; first triple: Ada knows Grace")


def test_labels_and_confidences_anywhere(tmp_path: Path) -> None:
    rows = [(sign, tail, head, "0.5", relation) for (head, relation, tail), sign in zip(ROWS, "111", strict=True)]
    read = read_triples(write(tmp_path / "x.csv", rows, ("Label", "object", "subject", "Confidence", "predicate")))
    assert rows_of(read) == ROWS
    assert read.signs is not None
    assert read.signs.tolist() == [1, 1, 1]
    assert read.weights is not None
    assert read.weights.tolist() == [0.5] * 3


def test_a_fourth_column_of_signs_is_a_label_whatever_it_is_called(tmp_path: Path) -> None:
    read = read_triples(write(tmp_path / "x.csv", [(*ROWS[0], "-1"), (*ROWS[1], "1")], ("head", "rel", "tail", "y")))
    assert read.signs is not None
    assert read.signs.tolist() == [-1, 1]
    other = read_triples(write(tmp_path / "y.csv", [(*ROWS[0], "2019")], ("head", "rel", "tail", "year")))
    assert other.signs is None
    assert "not read: year" in other.layout


# --- as a caller says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_columns_can_be_named(tmp_path: Path, order: Any) -> None:
    names = ("Name", "Eigenschaft", "Wert")
    rows = [(*(row[i] for i in order), "x", "y") for row in ROWS]
    header = (*(names[i] for i in order), "Quelle", "Datum")
    frame = pd.DataFrame(rows, columns=list(header))
    for found in (
        read_triples(write(tmp_path / "x.csv", rows, header), columns=GERMAN),
        read_triples(write(tmp_path / "x.tsv", rows, header), columns=GERMAN),
    ):
        assert rows_of(found) == ROWS
        assert found.layout.endswith("not read: Quelle, Datum; first triple: Ada knows Grace")
    graph = load_graph(frame, columns=GERMAN, split=(1, 0, 0))
    assert graph.fingerprint == load_graph(np.array(ROWS), split=(1, 0, 0)).fingerprint


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_columns_can_be_counted(tmp_path: Path, order: Any) -> None:
    rows = [tuple(row[i] for i in order) for row in ROWS]
    columns = {role: 1 + order.index(part) for part, role in enumerate(("head", "relation", "tail"))}
    assert rows_of(read_triples(write(tmp_path / "x.tsv", rows), columns=columns)) == ROWS
    wide = [("id", *row, "1", "2") for row in rows]
    behind = {role: 1 + place for role, place in columns.items()}
    read = read_triples(write(tmp_path / "y.tsv", wide), columns=behind)
    assert rows_of(read) == ROWS
    assert "not read: 1, 5, 6" in read.layout
    assert rows_of(read_triples(write(tmp_path / "z.tsv", rows, ("a", "b", "c")), True, columns=columns)) == ROWS
    assert rows_of(read_table(np.array(rows), options=TableOptions.of(columns=columns))) == ROWS


def test_roles_left_out_are_found_by_their_names(tmp_path: Path) -> None:
    rows = [(tail, relation, head, "1") for head, relation, tail in ROWS]
    path = write(tmp_path / "x.csv", rows, ("object", "Eigenschaft", "subject", "label"))
    read = read_triples(path, columns={"relation": "eigenschaft"})
    assert rows_of(read) == ROWS
    assert read.signs is not None
    assert read_triples(path, columns={"relation": "Eigenschaft", "label": None}).signs is None


def test_a_folder_a_mapping_and_parquet_take_columns(tmp_path: Path) -> None:
    header = ("Eigenschaft", "Wert", "Name")
    rows = [(relation, tail, head) for head, relation, tail in ROWS]
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.csv", rows, header)
    graph = load_graph(tmp_path, columns=GERMAN)
    assert list(graph.relations) == ["knows", "likes"]
    assert graph.notes[0].startswith("train.csv: head = Name (column 3), relation = Eigenschaft (1)")
    frame = pd.DataFrame(rows, columns=list(header))
    tables = load_graph({"train": frame, "valid": frame, "test": frame}, columns=GERMAN)
    assert tables.fingerprint == graph.fingerprint
    assert tables.notes[0].startswith("train: head = Name (column 3)")
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "x.parquet")
    assert rows_of(read_triples(tmp_path / "x.parquet", columns=GERMAN)) == ROWS
    with pytest.raises(
        DataError, match=r"x\.parquet: no column is called 'Nom', wanted as head; there are: Eigensch"
    ):
        read_triples(tmp_path / "x.parquet", columns={"head": "Nom"})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"head": "Nom"},
            r"x\.csv:1: no column is called 'Nom', wanted as head; there are: Name, Eigenschaft, Wert$",
        ),
        (
            {"head": "Name"},
            r"x\.csv:1: no column is named for the relation or the tail, nor called so; there are: Na",
        ),
        ({"head": 4}, r"x\.csv:1: column 4 is wanted as head; columns are counted from 1 to 3"),
        ({"head": 0}, "counted from 1 to 3"),
        ({**GERMAN, "subject": "Wert"}, r"x\.csv:1: column 3 \(Wert\) cannot be both head and tail"),
        ({**GERMAN, "label": "Wert"}, "cannot be both"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, columns: Any, says: str) -> None:
    path = write(tmp_path / "x.csv", ROWS, ("Name", "Eigenschaft", "Wert"))
    with pytest.raises(DataError, match=says):
        read_triples(path, columns=columns)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"Kopf": "Name"}, "no role is called 'Kopf'; columns are for head, relation, tail, label, confidence"),
        ({"head": "a", "subject": "b"}, "the column of the head is given twice"),
        ({"head": ""}, "the column of the head has no name"),
        ({"head": 1.5}, "by its name or its number from 1, got 1.5 as head"),
        ({"head": True}, "by its name or its number"),
        (["Name"], "columns are given by role"),
    ],
)
def test_columns_that_make_no_sense(columns: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        load_graph(np.array(ROWS), columns=columns)


def test_what_has_no_columns_refuses_them(tmp_path: Path) -> None:
    for source in ("geo", tmp_path / "x.nt"):
        (tmp_path / "x.nt").write_text("<http://x/a> <http://x/p> <http://x/b> .\n")
        with pytest.raises(SettingError, match="--columns, --skip-blank and --na are for text, Parquet and tables"):
            load_graph(source, skip_blank=True)
    with pytest.raises(SettingError, match="leave out --no-header"):
        load_graph("geo", header=False, columns=GERMAN)
    with pytest.raises(SettingError, match="na lists cells"):
        load_graph("geo", na=[1])  # type: ignore[list-item]


def test_names_that_say_too_little_or_too_much(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["x", "head", "tail"])
    with pytest.raises(
        InputError, match="column 2 is called 'head', but none is called relation; there are: x, head"
    ):
        read_table(frame)
    path = write(tmp_path / "x.csv", [(*row, "z") for row in ROWS], ("head", "relation", "tail", "Head"))
    with pytest.raises(DataError, match=r"x\.csv:1: columns 1 and 4 are both called 'head'; say --columns head=NUMB"):
        read_triples(path)
    assert rows_of(read_triples(path, columns={"head": 1})) == ROWS


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), r"x\.tsv:1: expected 3 or 4 tab-separated columns, found 5; say which to read: --columns"),
        (("a", "b", "c", "d", "e"), r"none of a, b, c, d, e is called head, relation or tail; say which .*--columns"),
    ],
)
def test_five_columns_tell_of_the_way_out(tmp_path: Path, names: Any, says: str) -> None:
    path = write(tmp_path / "x.tsv", [(*row, "x", "y") for row in ROWS], names)
    with pytest.raises(DataError, match=says):
        read_triples(path, header=bool(names) or None)


def test_a_label_of_another_kind_tells_of_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [(*ROWS[0], "Countess")], ("subject", "predicate", "object", "label"))
    with pytest.raises(DataError, match=r"x\.csv:2: expected 1 or -1 in column 4, found 'Countess'; .*label="):
        read_triples(path)
    assert rows_of(read_triples(path, columns={"label": ""})) == ROWS[:1]
    with pytest.raises(DataError, match="say --header if the first line names columns, or --columns head=1"):
        read_triples(write(tmp_path / "y.csv", [("Name", "Eigenschaft", "Wert", "Jahr"), (*ROWS[0], "1")]))


def test_rows_as_wide_as_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [(*ROWS[0], "x"), ROWS[1]], ("head", "relation", "tail", "note"))
    with pytest.raises(DataError, match=r"x\.csv:3: expected 4 columns as in the first row, found 3"):
        read_triples(path)
    path = write(tmp_path / "y.csv", ROWS, ("head", "relation", "tail", ""))
    assert rows_of(read_triples(path)) == ROWS


# --- what is told ------------------------------------------------------------------------------------------------


def test_which_column_was_taken_for_what_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [(relation, tail, head) for head, relation, tail in ROWS]
    graph = load_graph(write(tmp_path / "people.csv", rows, ("Predicate", "Object", "Subject")))
    said = "head = Subject (column 3), relation = Predicate (1), tail = Object (2); first triple: Ada knows Grace"
    assert caplog.messages == [f"people.csv: {said}"]
    assert graph.notes == (said,)
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_a_plain_file_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = load_graph(write(tmp_path / "people.tsv", ROWS))
    assert graph.notes == ()
    assert caplog.messages == []


def facts(names: tuple[str, str, str], count: int = 12) -> list[tuple[str, ...]]:
    return [names, *((f"city {i}", ("in", "near")[i % 2], f"land {i % 4}") for i in range(count))]


def test_a_header_that_is_not_known_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_graph(write(tmp_path / "x.csv", facts(("Name", "Eigenschaft", "Wert"))), split=(1, 0, 0))
    (said,) = caplog.messages
    assert said.startswith(
        "x.csv: the first line, `Name Eigenschaft Wert`, was read as a fact; if it names the columns"
    )
    assert "--header" in said
    assert "--columns" in said
    read_triples(tmp_path / "x.csv", columns={"h": 3, "r": 2, "t": 1})
    assert "`Wert Eigenschaft Name`, was read as a fact" in caplog.messages[-1]


@pytest.mark.parametrize(
    "first",
    [("city 3", "a road to", "Rome"), ("Rome", "in", "Italy"), ("Q42", "P31", "Q5"), ("Rome", "a road to", "land 1"),
     ("/m/027rn", "/location/contains", "/m/06cx9"), ("Rome", "Rome", "Rome")],
)  # fmt: skip
def test_a_first_fact_is_no_header(tmp_path: Path, first: Any, caplog: pytest.LogCaptureFixture) -> None:
    load_graph(write(tmp_path / "x.csv", facts(first)), split=(1, 0, 0))
    assert caplog.messages == []


def test_too_few_or_too_many_relations_say_nothing_of_headers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read_triples(write(tmp_path / "x.csv", facts(("Name", "Eigenschaft", "Wert"), count=4)))
    read_triples(write(tmp_path / "y.csv", [(f"a{'b' * i}", f"r{'s' * i}", f"c{'d' * i}") for i in range(9)]))
    read_triples(write(tmp_path / "z.csv", facts(("Name", "Eigenschaft", "Wert"))), header=False)
    assert caplog.messages == []
