"""Rows without a value: refused by line, row and column, or left out and counted; and cells of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from staypositive.errors import DataError
from staypositive.graph import load_graph, read_triples
from staypositive.graph.readers import TableOptions, read_table

ROWS = [("Ada", "knows", "Grace"), ("Grace", "knows", "Alan"), ("Alan", "likes", "Ada")]


def write(path: Path, rows: list[tuple[str, ...]]) -> Path:
    mark = "," if path.suffix == ".csv" else "\t"
    path.write_text("".join(mark.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(found: Any) -> list[tuple[str, ...]]:
    return list(zip(*found.columns, strict=True))


GAPS = [ROWS[0], ("", "knows", "x"), ("a", " ", "x"), ("N/A", "knows", "x"), ("a", "knows", "-"), *ROWS[1:]]


@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
def test_rows_without_a_value_are_left_out_and_counted(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, GAPS)
    found = read_triples(path, skip_blank=True, na=["N/A", "-"])
    assert rows_of(found) == ROWS
    assert list(found.lines) == [1, 6, 7]
    assert found.notes == ("4 rows left out: the head, relation or tail is empty or is '-' or 'N/A'",)
    blank = read_triples(path, skip_blank=True)
    assert blank.notes == ("2 rows left out: the head, relation or tail is empty",)
    assert len(blank) == 5
    with pytest.raises(DataError, match=rf"{name}:2: the head is empty; --skip-blank \(skip_blank=True\) leaves"):
        read_triples(path, na="N/A")
    whole = write(tmp_path / f"y{name}", GAPS[1:3])
    with pytest.raises(DataError, match=r"no triples here \(2 rows left out"):
        read_triples(whole, skip_blank=True)


def test_rows_left_out_need_no_label_and_other_faults_are_named(tmp_path: Path) -> None:
    rows = [("", "", "", "oops"), (*ROWS[0], "1"), ("", "r", "b", "1"), (*ROWS[1], "-1")]
    found = read_triples(write(tmp_path / "x.tsv", rows), skip_blank=True)
    assert found.signs is not None
    assert found.signs.tolist() == [1, -1]
    with pytest.raises(DataError, match=r"x\.tsv:3: expected 4 columns as in the first row, found 3"):
        read_triples(write(tmp_path / "x.tsv", [*rows[:2], ROWS[2]]), skip_blank=True)


MISSING = [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), " ", "", "N/A"]


@pytest.mark.parametrize("cell", MISSING, ids=repr)
@pytest.mark.parametrize("role", ["head", "relation", "tail"])
def test_missing_values_of_a_frame_are_left_out(cell: Any, role: str) -> None:
    columns = {
        name: list(cells) for name, cells in zip(("head", "relation", "tail"), np.array(ROWS).T.tolist(), strict=True)
    }
    columns[role][1] = cell
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    frame = frame.assign(label=[1, 7, -1], confidence=[0.5, -3, 1])
    found = read_table(frame, options=TableOptions.of(skip_blank=True, na="N/A"))
    assert rows_of(found) == [ROWS[0], ROWS[2]]
    assert list(found.lines) == [1, 3]
    assert found.signs is not None
    assert found.signs.tolist() == [1, -1]
    assert found.notes[0].startswith("1 rows left out")


def test_whole_numbers_that_missing_values_made_floats_of() -> None:
    frame = pd.DataFrame({"head": [7, None, 9], "relation": ["r"] * 3, "tail": ["a", "b", "c"]})
    graph = load_graph(frame, skip_blank=True, split=(1, 0, 0))
    assert list(graph.entities) == ["7", "9", "a", "c"]


@pytest.mark.parametrize("cell", [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_a_missing_value_names_its_row_and_column(cell: Any) -> None:
    frame = pd.DataFrame({"head": pd.Series(["a", cell], dtype=object), "rel": ["r"] * 2, "tail": ["b"] * 2})
    with pytest.raises(DataError, match=r"row 2: the head is missing; --skip-blank"):
        read_table(frame)
    with pytest.raises(DataError, match=r"row 2: the head \(column 'Kopf'\) is missing"):
        read_table(frame.rename(columns={"head": "Kopf"}), options=TableOptions.of(columns={"head": "Kopf"}))


def test_missing_values_of_a_string_column() -> None:
    frame = pd.DataFrame({"head": pd.array(["a", pd.NA], dtype="string"), "rel": ["r"] * 2, "tail": ["b"] * 2})
    with pytest.raises(DataError, match=r"row 2: the head is missing"):
        load_graph(frame)


@pytest.mark.parametrize("cell", [["a"], np.array([1, 2]), np.array(["a"]), {"a": 1}, (1,), b"a", True, 1.5])
def test_a_cell_of_another_kind_names_its_row(cell: Any) -> None:
    cells = np.empty(2, dtype=object)
    cells[:] = ["a", None]
    cells[1] = cell
    frame = pd.DataFrame({"head": ["a"] * 2, "relation": ["r"] * 2, "tail": pd.Series(cells)})
    with pytest.raises(DataError, match=r"row 2: the tail is .*, neither text nor a whole number"):
        read_table(frame)


def test_dates_are_no_labels() -> None:
    frame = pd.DataFrame({"head": ["a"], "relation": ["r"], "tail": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(DataError, match=r"row 1: the tail is .*2020.*, neither text nor a whole number"):
        read_table(frame)


def test_masked_arrays() -> None:
    ids = np.ma.masked_array([[7, 0, 3], [3, 0, 9]], mask=[[0, 0, 0], [0, 0, 1]])
    with pytest.raises(DataError, match=r"row 2: the tail is missing"):
        load_graph(ids)
    graph = load_graph(ids, skip_blank=True)
    assert list(graph.entities) == ["7", "3"]


@pytest.mark.parametrize("cell", [pd.NA, [1], np.array([1, -1]), 10**400, "x", None, 2])
def test_labels_and_confidences_of_another_kind(cell: Any) -> None:
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = 1, cell
    frame = pd.DataFrame(ROWS[:2], columns=["head", "relation", "tail"])
    with pytest.raises(DataError, match="row 2: expected 1 or -1 as a label, found"):
        read_table(frame.assign(label=pd.Series(cells)))
    if not isinstance(cell, int) or cell > 2:
        with pytest.raises(DataError, match="row 2: expected a number from 0 as confidence, found"):
            read_table(frame.assign(confidence=pd.Series(cells)))
