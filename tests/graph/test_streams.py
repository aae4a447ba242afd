"""Text in pieces: any cut gives what the whole gives, errors name the same line, and columns may be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from staypositive.errors import DataError
from staypositive.graph import read_triples
from staypositive.graph.readers import text


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_any_cut_gives_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, suffix: str) -> None:
    rows = [("Å", "r", "日本"), ("b", "q", "nan"), ("c\u2028", "r", "Å"), ("b", "r", "c")]
    mark = "," if suffix == "csv" else "\t"
    ends = ["\r\n", "\n\n", "\n", ""]
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(("\ufeff" + "".join(mark.join(r) + e for r, e in zip(rows, ends, strict=True))).encode())
    whole = read_triples(path)
    monkeypatch.setattr(text, "PIECE", piece)
    monkeypatch.setattr(text, "CSV_ROWS", 1)
    cut = read_triples(path)
    assert list(zip(*cut.columns, strict=True)) == rows == list(zip(*whole.columns, strict=True))
    assert list(cut.lines) == [1, 2, 4, 5] == list(whole.lines)
    assert cut.source == whole.source


@pytest.mark.parametrize("piece", [5, 1000])
@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"a\tr\tb\n\na\tr\t\xff\n", 3, "invalid UTF-8"),
        (b"a\tr\tb\na\tr\tb\na\tr\n", 3, "expected 3 or 4 tab-separated columns, found 2"),
        (b"a\tr\tb\na\tr\tb\na\tr\tb\t1\n", 3, "expected 3 columns as in the first row, found 4"),
        (b"a\tr\tb\n\n\nb\t \tb\n", 4, "the relation is empty"),
    ],
)
def test_errors_name_the_line_whatever_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, content: bytes, line: int, says: str
) -> None:
    monkeypatch.setattr(text, "PIECE", piece)
    (tmp_path / "x.tsv").write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        read_triples(tmp_path / "x.tsv")
    assert caught.value.line == line


def test_a_header_names_label_and_confidence(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("head\trelation\ttail\tconfidence\na\tr\tb\t0.5\nb\tr\ta\t1e-3\n", "utf-8")
    read = read_triples(path)
    assert read.signs is None
    assert read.weights is not None
    assert read.weights.tolist() == pytest.approx([0.5, 1e-3])
    path.write_text("subject\tpredicate\tobject\tweight\tlabel\na\tr\tb\t2\t1\nb\tr\ta\t1\t-1\n", "utf-8")
    read = read_triples(path)
    assert read.weights is not None
    assert read.weights.tolist() == [2, 1]
    assert read.signs is not None
    assert read.signs.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("rows", "line", "says"),
    [
        ("a\tr\tb\t1\t0.5\na\tr\tb\t1\thigh\n", 3, "expected a number from 0 as confidence, found 'high'"),
        ("a\tr\tb\t1\t-1\n", 2, "expected a number from 0 as confidence, found '-1'"),
        ("a\tr\tb\t1\tnan\n", 2, "found 'nan'"),
        ("a\tr\tb\t2\t1\n", 2, "expected 1 or -1 in column 4, found '2'"),
        ("a\tr\t\t1\t1\na\tr\tb\t2\t1\n", 2, "the tail is empty"),
        ("a\tr\tb\t1\t1\na\tr\tb\t1\n", 3, "expected 5 columns as in the first row, found 4"),
    ],
)
def test_bad_named_columns(tmp_path: Path, rows: str, line: int, says: str) -> None:
    (tmp_path / "x.tsv").write_text("head\trelation\ttail\tlabel\tconfidence\n" + rows, "utf-8")
    with pytest.raises(DataError, match=says) as caught:
        read_triples(tmp_path / "x.tsv")
    assert caught.value.line == line
