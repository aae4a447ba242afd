"""Shards whose columns have names, or are chosen; rows without a value; odd line ends and encodings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from staypositive.errors import DataError, SettingError
from staypositive.graph import StreamedGraph, ingest
from staypositive.graph.on_disk.storage import Job

pytest.importorskip("numba", reason="streamed graphs need numba")

LEAST = 128 << 20
ROWS = [("Ada", "knows", "Grace"), ("Grace", "knows", "Alan"), ("Alan", "likes", "Ada")]
COLUMNS: dict[str, Any] = {"subject": "Name", "predicate": "Eigenschaft", "object": "Wert"}


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="staypositive")


def said(graph: StreamedGraph) -> list[tuple[str, ...]]:
    words = (graph.entities, graph.relations, graph.entities)
    return sorted(tuple(w[i] for w, i in zip(words, row, strict=True)) for row in graph.train.triples.tolist())


def read(path: Path, content: str | bytes, **options: Any) -> list[tuple[str, ...]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return said(ingest(path, path.with_suffix(".out"), memory=LEAST, force=True, **options))


def lines(*rows: tuple[str, ...]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


@pytest.mark.parametrize("piece", [17, 1 << 20])
def test_columns_by_name_and_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(Job, "piece", piece)  # so that a header may be a piece of its own
    swapped = [(relation, "x", tail, head, "y") for head, relation, tail in ROWS]
    path = tmp_path / "a.tsv"
    assert read(path, lines(("Predicate", "note", "Object", "Subject", "id"), *swapped)) == sorted(ROWS)
    german = lines(("Eigenschaft", "note", "Wert", "Name", "id"), *swapped)
    assert read(path, german, columns=COLUMNS) == sorted(ROWS)
    assert read(path, lines(*swapped), columns={"h": 4, "r": 1, "t": 3}) == sorted(ROWS)
    assert read(path, german, columns={"h": 4, "r": 1, "t": 3}, header=True) == sorted(ROWS)


def test_which_columns_are_read_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        (tmp_path / f"{number}.tsv").write_text(lines(("tail", "relation", "head"), ROWS[number]), "utf-8")
    ingest(tmp_path, tmp_path / "out", memory=LEAST)
    assert caplog.messages == [
        "0.tsv: head = head (column 3), relation = relation (2), tail = tail (1); first triple: Grace knows Ada"
    ]


def test_rows_without_a_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [ROWS[0], ("", "r", "x"), ("a", " ", "x"), ("N/A", "r", "x"), ("a", "r", "-"), *ROWS[1:]]
    path = tmp_path / "a.tsv"
    assert read(path, lines(*rows), skip_blank=True, na=["N/A", "-"]) == sorted(ROWS)
    assert caplog.messages == ["a.tsv: 4 rows left out: the head, relation or tail is empty or is '-' or 'N/A'"]
    with pytest.raises(DataError, match=r"a\.tsv:2: the head is empty; --skip-blank"):
        read(path, lines(*rows), na=["N/A"])


def test_parquet_shards_with_chosen_columns_and_gaps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    heads, relations, tails = (list(cells) for cells in zip(*ROWS, strict=True))
    table = {
        "Wert": [*tails, None, " "],
        "label": ["x"] * 5,
        "Name": [*heads, "a", "b"],
        "Eigenschaft": [*relations] + ["r"] * 2,
    }
    parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet", row_group_size=2)
    columns = {**COLUMNS, "label": None}
    graph = ingest(tmp_path / "a.parquet", tmp_path / "out", memory=LEAST, columns=columns, skip_blank=True)
    assert said(graph) == sorted(ROWS)
    assert caplog.messages[-1] == "a.parquet: 2 rows left out: the head, relation or tail is empty"
    with pytest.raises(DataError, match=r"a\.parquet: row 4: the tail is missing; --skip-blank"):
        ingest(tmp_path / "a.parquet", tmp_path / "again", memory=LEAST, columns=columns)
    with pytest.raises(DataError, match="leave the column 'label' out, or say --columns label="):
        ingest(tmp_path / "a.parquet", tmp_path / "again", memory=LEAST, columns=COLUMNS)


@pytest.mark.parametrize("ends", ["\r\r\n", "\r\n", "\n", "\r"])
@pytest.mark.parametrize("last", ["", "\r", "\r\r\n"])
def test_carriage_returns_end_lines(tmp_path: Path, ends: str, last: str) -> None:
    last = "\r" if ends == "\r" else last
    assert read(tmp_path / "a.tsv", ends.join("\t".join(row) for row in ROWS) + last) == sorted(ROWS)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\tr\tb\n".encode("utf-16"), {}, r"a\.tsv:1: UTF-16 text, by its byte-order mark"),
        ("a\tr\tb\n".encode("utf-16-le"), {}, r"a\.tsv:1: a NUL byte, as in UTF-16 text"),
        (b"Name\tx\ty\na\tr\tb\n", {"columns": COLUMNS}, r"a\.tsv:1: no column is called 'Eigenschaft', wanted"),
        (b"head\trelation\ttail\tlabel\na\tr\tb\t1\n", {}, "leave the column 'label' out, or say --columns label="),
        (b"a\tr\tb\tc\td\n", {}, r"a\.tsv:1: expected 3 tab-separated columns, found 5; .*--columns"),
        (b"\n\na\tr\tb\t1\n", {}, r"a\.tsv:3: expected 3 tab-separated columns, found 4; labels and confidences"),
        (b"s\tp\to\tx\na\tr\tb\tc\na\tr\tb\n", {}, r"a\.tsv:3: expected 4 tab-separated columns, found 3"),
    ],
)  # fmt: skip
def test_shards_that_are_refused(tmp_path: Path, content: bytes, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.tsv", content, **options)


def test_ids_have_no_columns(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "a.npy", np.zeros((2, 3), dtype=np.int64))
    with pytest.raises(SettingError, match="are for text, Parquet and tables"):
        ingest(tmp_path / "a.npy", tmp_path / "out", memory=LEAST, columns=COLUMNS)


def test_a_header_that_is_not_known_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    facts = [(f"city {i}", ("in", "near")[i % 2], f"land {i % 4}") for i in range(12)]
    read(tmp_path / "a.tsv", lines(("Name", "Eigenschaft", "Wert"), *facts))
    (told,) = caplog.messages
    assert told.startswith("a.tsv: the first line, `Name Eigenschaft Wert`, was read as a fact")
    read(tmp_path / "a.tsv", lines(*facts))
    assert len(caplog.messages) == 1
