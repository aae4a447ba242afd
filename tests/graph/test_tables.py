"""Frames, Arrow tables and arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from staypositive.errors import DataError, InputError
from staypositive.graph.readers import read_table

ROWS = [("Å", "r", "b"), ("b", "q", "nan"), ("Å", "r", "c")]
FRAME = pd.DataFrame(ROWS, columns=["head", "relation", "tail"])


def triples(table: Any) -> list[tuple[str, ...]]:
    return list(zip(*read_table(table).columns, strict=True))


def as_polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").DataFrame({name: frame[name].tolist() for name in frame.columns})


def as_lazy(frame: pd.DataFrame) -> Any:
    return as_polars(frame).lazy()


def as_arrow(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").table({name: frame[name].tolist() for name in frame.columns})


KINDS = [lambda frame: frame, as_polars, as_lazy, as_arrow]


@pytest.mark.parametrize("kind", KINDS, ids=["pandas", "polars", "lazy", "arrow"])
def test_every_kind_of_frame_gives_the_same(kind: Any) -> None:
    frame = FRAME.assign(note="x", label=[1, -1, 1], confidence=[0.5, 1, 0.25])
    read = read_table(kind(frame))
    assert list(zip(*read.columns, strict=True)) == ROWS
    assert read.signs is not None
    assert read.signs.tolist() == [1, -1, 1]
    assert read.weights is not None
    assert read.weights.tolist() == [0.5, 1, 0.25]


def test_columns_are_found_by_name_in_any_order_else_the_first_three() -> None:
    assert triples(FRAME[["tail", "relation", "head"]]) == ROWS
    assert triples(FRAME.set_axis(["a", "b", "c"], axis=1)) == ROWS
    assert triples(FRAME.set_axis(["Object", "SUBJECT", "predicate"], axis=1)) == [(r, t, h) for h, r, t in ROWS]


def test_arrays_of_labels_and_of_ids() -> None:
    assert triples(np.array(ROWS)) == ROWS
    assert triples(np.array(ROWS, dtype=object)) == ROWS
    assert triples(np.array([[7, 0, 3], [3, 0, 7]])) == [("7", "0", "3"), ("3", "0", "7")]


@pytest.mark.parametrize("rows", [ROWS, tuple(ROWS), [list(row) for row in ROWS], [np.array(row) for row in ROWS]])
def test_lists_of_triples(rows: Any) -> None:
    assert triples(rows) == ROWS
    graph = sp.load_graph(rows, split=(1, 0, 0))
    assert graph.fingerprint == sp.load_graph(np.array(ROWS), split=(1, 0, 0)).fingerprint
    assert sp.load_graph({"train": rows, "test": rows[:1]}).counts()["test"] == 1


def test_lists_that_are_no_triples() -> None:
    assert triples([(7, 0, 3)]) == [("7", "0", "3")]
    for row in (("a", "r"), "abc", 5, {"a", "r", "b"}):
        with pytest.raises(InputError, match=r"row 2: expected a triple \(head, relation, tail\), got"):
            sp.load_graph([ROWS[0], row])
    with pytest.raises(DataError, match="row 2: the tail is missing"):
        sp.load_graph([ROWS[0], ("a", "r", None)])
    with pytest.raises(InputError, match="no triples here; expected a triple in each row"):
        sp.load_graph([])


def test_a_graph_from_a_table_is_the_graph_of_the_file(tmp_path: Any) -> None:
    rows = [(f"e{i}", f"r{i % 2}", f"e{(i * 7) % 20}") for i in range(20)] * 2
    (tmp_path / "x.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    options: dict[str, Any] = {"split": (0.6, 0.2, 0.2), "seed": 3}
    by_file, by_table = (sp.load_graph(source, **options) for source in (tmp_path / "x.tsv", np.array(rows)))
    assert by_file.fingerprint == by_table.fingerprint
    assert sp.load_graph(np.array(rows), name="mine").name == "mine"
    assert len(by_table.sources[0].sha256) == 64
    assert by_table.sources[0].rows == 40


def test_tables_of_each_split() -> None:
    held = FRAME.assign(label=[1, -1, 1])
    graph = sp.load_graph({"train": FRAME, "valid": held, "test": np.array(ROWS[:1])})
    assert graph.counts() == {"entities": 4, "relations": 2, "train": 3, "valid": 3, "test": 1}
    assert graph.valid.signs.tolist() == [1, -1, 1]
    with pytest.raises(InputError, match="train at least; got valid"):
        sp.load_graph({"valid": FRAME})
    with pytest.raises(DataError, match=r"row 2: training uses facts alone, but `b q nan` is labelled -1"):
        sp.load_graph({"train": held})
    with pytest.raises(InputError, match="a split is for a single file"):
        sp.load_graph({"train": FRAME}, split=(0.8, 0.1, 0.1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"head": ["a", None, "b"]}, "row 2: the head is missing"),
        ({"tail": ["a", "b", float("nan")]}, "row 3: the tail is missing"),
        ({"relation": ["r", " ", "r"]}, "row 2: the relation is empty"),
        ({"tail": ["a", 1.5, "b"]}, r"row 2: the tail is 1\.5, neither text nor a whole number"),
        ({"label": [1, 0, 1]}, "row 2: expected 1 or -1 as a label, found 0"),
        ({"confidence": [1, 1, -0.5]}, r"row 3: expected a number from 0 as confidence, found -0\.5"),
        ({"weight": ["high", 1, 1]}, "row 1: expected a number from 0 as confidence, found 'high'"),
    ],
)
def test_a_bad_cell_names_its_row(change: dict[str, Any], says: str) -> None:
    columns = {name: FRAME[name].tolist() for name in FRAME.columns} | change
    with pytest.raises(DataError, match=says.replace("found 0", r"found (np\.int64\()?0")):
        read_table(pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}))


def test_what_is_no_table_of_triples() -> None:
    with pytest.raises(InputError, match=r"shape \(n, 3\), got \(2, 2\)"):
        sp.load_graph(np.zeros((2, 2), dtype=int))
    with pytest.raises(InputError, match="three columns or more, this one has 2"):
        sp.load_graph(FRAME[["head", "tail"]])
    with pytest.raises(InputError, match="no triples here; expected a triple in each row"):
        sp.load_graph(FRAME.iloc[:0])
    with pytest.raises(InputError, match="a int is neither a file"):
        sp.load_graph(3)
