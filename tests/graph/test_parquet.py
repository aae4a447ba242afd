"""Parquet files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import staypositive as sp
from staypositive.errors import DataError
from staypositive.graph import read_triples

pytest.importorskip("pyarrow")
from staypositive.graph.readers import tables


def write(path: Path, **columns: list[object]) -> Path:
    pd.DataFrame(columns).to_parquet(path, index=False)
    return path


def test_columns_of_a_file_are_found_as_in_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 2)  # more than one piece
    path = write(
        tmp_path / "x.parquet", tail=["b", "c", "a"], note=[1, 2, 3], confidence=[0.5, 1.0, 0.0],
        head=["a", "b", "c"], relation=["r", "r", "q"],
    )  # fmt: skip
    read = read_triples(path)
    assert list(zip(*read.columns, strict=True)) == [("a", "r", "b"), ("b", "r", "c"), ("c", "q", "a")]
    assert read.weights is not None
    assert read.weights.tolist() == [0.5, 1.0, 0.0]
    assert (read.source.name, read.source.rows, list(read.lines)) == ("x.parquet", 3, [1, 2, 3])


def test_whole_numbers_are_labels_too(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", h=[5, 6], r=[0, 0], t=[6, 5])
    assert read_triples(path).columns == (["5", "6"], ["0", "0"], ["6", "5"])


def test_folders_of_parquet_files(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", head=["a", "b"], relation=["r", "r"], tail=["b", "a"])
    write(tmp_path / "valid.parquet", head=["a"], relation=["r"], tail=["a"], label=[-1])
    (tmp_path / "test.tsv").write_text("b\tr\tb\n", "utf-8")
    graph = sp.load_graph(tmp_path)
    assert graph.counts() == {"entities": 2, "relations": 1, "train": 2, "valid": 1, "test": 1}
    assert graph.valid.has_negatives


def test_faults_name_the_file_and_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 2)
    path = write(tmp_path / "x.parquet", head=["a", "b", None], relation=["r"] * 3, tail=["a"] * 3)
    with pytest.raises(DataError, match=r"x\.parquet: row 3: the head is missing"):
        read_triples(path)
    path = write(tmp_path / "y.parquet", head=["a"], tail=["a"])
    with pytest.raises(DataError, match=r"y\.parquet: a table of triples has three columns or more"):
        read_triples(path)
    (tmp_path / "z.parquet").write_bytes(b"not Parquet at all")
    with pytest.raises(DataError, match=r"z\.parquet: not a readable Parquet file"):
        read_triples(tmp_path / "z.parquet")
    with pytest.raises(DataError, match=r"none\.parquet: cannot be read: No such file"):
        read_triples(tmp_path / "none.parquet")
