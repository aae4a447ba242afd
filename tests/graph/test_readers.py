"""Reading files and folders of triples, and the errors of files that are not what they should be."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphs import encode
from staypositive.errors import DataError, InputError
from staypositive.graph import KnowledgeGraph, Source, read_folder, read_triples, write_folder

AWKWARD = [
    "nan",
    "NA",
    "None",
    "null",
    "1",
    "-1",
    " with spaces ",
    "line\u2028separator",
    "a\x85b",
    "a\x0bb\x0cc",
    "日本",
]


def triples_in(path: Path, header: bool | None = None) -> list[tuple[str, ...]]:
    return list(zip(*read_triples(path, header).columns, strict=True))


def refuse(path: Path, line: int | None, says: str, header: bool | None = None) -> None:
    """The file gives one DataError whose text begins with the file and, where there is one, the line."""
    with pytest.raises(DataError) as caught:
        read_triples(path, header)
    where = f"{path}: " if line is None else f"{path}:{line}: "
    assert str(caught.value).startswith(where)
    assert says in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, line)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- layouts that are read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "unended"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
@pytest.mark.parametrize("packed", [True, False], ids=["gzip", "text"])
@pytest.mark.parametrize(("suffix", "separator"), [(".txt", "\t"), (".tsv", "\t"), (".csv", ",")])
def test_every_layout_gives_the_same_triples(tmp_path, end, last, bom, packed, suffix, separator):
    text = end.join(separator.join(row) for row in (("Å", "r", "b"), ("b", "q", "nan"))) + (end if last else "")
    data = bom + text.encode()
    path = write(tmp_path / f"x{suffix}{'.gz' if packed else ''}", gzip.compress(data) if packed else data)
    assert triples_in(path) == [("Å", "r", "b"), ("b", "q", "nan")]


@pytest.mark.parametrize("label", AWKWARD)
def test_labels_are_kept_to_the_letter(tmp_path, label):
    row = (label, f"r{label}", label)
    assert triples_in(write(tmp_path / "x.tsv", "\t".join(row))) == [row]
    assert triples_in(write(tmp_path / "x.csv", ",".join(row))) == [row]


def test_csv_quotes_commas_and_line_ends(tmp_path):
    path = write(tmp_path / "x.csv", '"Paris, France",in,"the ""old""\ncontinent"\r\na,r,"b\r\nc"\r\n')
    assert triples_in(path) == [("Paris, France", "in", 'the "old"\ncontinent'), ("a", "r", "b\r\nc")]


def test_tab_files_take_quotes_and_commas_as_they_are(tmp_path):
    assert triples_in(write(tmp_path / "x.tsv", '"a\tr,s\tb"\n')) == [('"a', "r,s", 'b"')]


def test_the_name_decides_on_csv_whatever_its_case_and_packing(tmp_path):
    assert triples_in(write(tmp_path / "X.CSV", "a,r,b\n")) == [("a", "r", "b")]
    assert triples_in(write(tmp_path / "X.Csv.GZ", gzip.compress(b"a,r,b\n"))) == [("a", "r", "b")]
    refuse(write(tmp_path / "x.txt", "a,r,b\n"), 1, "3 or 4 tab-separated columns, found 1")


def test_the_content_decides_on_gzip(tmp_path):
    assert triples_in(write(tmp_path / "x.txt", gzip.compress(b"a\tr\tb\n"))) == [("a", "r", "b")]
    assert triples_in(write(tmp_path / "x.txt.gz", b"a\tr\tb\n")) == [("a", "r", "b")]


@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
def test_blank_lines_are_passed_over(tmp_path, name):
    separator = "," if name.endswith("csv") else "\t"
    text = f"\n\r\na{separator}r{separator}b\n\n\nb{separator}r{separator}c\n\n"
    assert triples_in(write(tmp_path / name, text)) == [("a", "r", "b"), ("b", "r", "c")]


def test_duplicates_and_order_are_kept(tmp_path):
    path = write(tmp_path / "x.tsv", "b\tr\ta\na\tr\tb\nb\tr\ta\n")
    assert triples_in(path) == [("b", "r", "a"), ("a", "r", "b"), ("b", "r", "a")]
    assert len(read_triples(path)) == 3


@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
def test_fourth_column_becomes_signs(tmp_path, name):
    separator = "," if name.endswith("csv") else "\t"
    text = "\n".join(
        separator.join(row) for row in (("a", "r", "b", "1"), ("a", "r", "c", "-1"), ("1", "-1", "1", "1"))
    )
    read = read_triples(write(tmp_path / name, text))
    assert read.signs is not None
    assert read.signs.tolist() == [1, -1, 1]
    assert tuple(map(tuple, read.columns)) == (("a", "a", "1"), ("r", "r", "-1"), ("b", "c", "1"))


def test_three_columns_have_no_signs(tmp_path):
    assert read_triples(write(tmp_path / "x.tsv", "a\tr\tb\n")).signs is None


def test_source_names_the_file_its_bytes_and_its_rows(tmp_path):
    data = gzip.compress(b"head\trelation\ttail\n\na\tr\tb\nb\tr\tc\n")
    read = read_triples(write(tmp_path / "x.tsv.gz", data))
    assert read.source == Source("x.tsv.gz", hashlib.sha256(data).hexdigest(), 2)


# --- header lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        "head\trelation\ttail",
        "Subject\tPREDICATE\tObject",
        " head \t rel \t tail ",
        "source\tproperty\tdst",
        "from\trel\tto\tlabel",
    ],
)
def test_a_header_is_detected(tmp_path, first):
    sign = "\t-1" if first.count("\t") == 3 else ""
    path = write(tmp_path / "x.tsv", f"{first}\na\tr\tb{sign}\n")
    assert triples_in(path) == [("a", "r", "b")]


def test_a_header_is_detected_in_csv_behind_a_byte_order_mark(tmp_path):
    path = write(tmp_path / "x.csv", "\ufeff\nsubject,predicate,object\na,r,b\n")
    assert triples_in(path) == [("a", "r", "b")]


@pytest.mark.parametrize(
    "first",
    [
        ("head", "relation", "Spain"),
        ("France", "relation", "tail"),
        ("head", "borders", "tail"),
        ("head", "source", "tail"),
        ("headline", "relation", "tail"),
        ("s", "p", "o"),
        ("h", "r", "t"),
    ],
)
def test_what_is_no_header_is_kept(tmp_path, first):
    path = write(tmp_path / "x.tsv", "\t".join(first) + "\na\tr\tb\n")
    assert triples_in(path) == [first, ("a", "r", "b")]


def test_only_the_first_line_can_be_a_header(tmp_path):
    path = write(tmp_path / "x.tsv", "a\tr\tb\nhead\trelation\ttail\n")
    assert triples_in(path) == [("a", "r", "b"), ("head", "relation", "tail")]


def test_a_header_that_is_passed_over_is_said(tmp_path, caplog):
    caplog.set_level("INFO", logger="staypositive")
    path = write(tmp_path / "x.tsv", "head\trelation\ttail\na\tr\tb\n")
    read_triples(path, header=False)
    assert caplog.messages == []
    read_triples(path)
    said = "head = head (column 1), relation = relation (2), tail = tail (3); first triple: a r b"
    assert caplog.messages == [f"x.tsv: {said}"]


def test_header_can_be_said(tmp_path):
    path = write(tmp_path / "x.tsv", "head\trelation\ttail\na\tr\tb\n")
    assert triples_in(path, header=False) == [("head", "relation", "tail"), ("a", "r", "b")]
    assert triples_in(path, header=True) == [("a", "r", "b")]
    path = write(tmp_path / "y.tsv", "who\ta\tb\tc\td\na\tr\tb\n")
    assert triples_in(path, header=True) == [("a", "r", "b")]


@pytest.mark.parametrize("ends", ["\r\r\n", "\r\n", "\n", "\r"])
@pytest.mark.parametrize("last", ["", "\r", "\r\n", "\r\r\n", "\n"])
@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
def test_carriage_returns_end_lines_and_are_no_part_of_a_label(tmp_path, ends, last, name):
    separator = "," if name.endswith("csv") else "\t"
    rows = [("Ada", "in", "Paris"), ("Bob", "in", "Rome"), ("Cy", "in", "Paris")]
    assume_one_kind = ends == "\r" and "\n" in last  # then the only line feed ends one long line
    path = write(tmp_path / name, ends.join(map(separator.join, rows)) + ("\r" if assume_one_kind else last))
    assert triples_in(path) == rows


def test_a_return_within_a_label_stays(tmp_path):
    assert triples_in(write(tmp_path / "x.tsv", "a\rb\tr\tc\rd\n")) == [("a\rb", "r", "c\rd")]


# --- files that are refused --------------------------------------------------------------------------------------

BAD = {
    "two columns": ("x.tsv", "a\tr\tb\na\tr\n", 2, "expected 3 or 4 tab-separated columns, found 2"),
    "five columns": ("x.tsv", "a\tr\tb\tc\td\n", 1, "expected 3 or 4 tab-separated columns, found 5"),
    "spaces for tabs": ("x.tsv", "a r b\n", 1, "expected 3 or 4 tab-separated columns, found 1"),
    "line of spaces": ("x.tsv", "a\tr\tb\n  \n", 2, "expected 3 or 4 tab-separated columns, found 1"),
    "behind blank lines": ("x.tsv", "\n\na\tr\tb\n\na\tr\n", 5, "columns, found 2"),
    "behind blank crlf lines": ("x.tsv", "\r\n\r\na\tr\tb\r\n\r\na\tr\r\n", 5, "columns, found 2"),
    "behind a header": ("x.tsv", "head\trelation\ttail\na\tr\n", 2, "columns, found 2"),
    "behind blanks and a header": ("x.tsv", "\nhead\trelation\ttail\n\na\tr\n", 4, "columns, found 2"),
    "behind a line separator": ("x.tsv", "a\u2028\x85\x0b\x0c\x1e\tr\tb\na\tr\n", 2, "columns, found 2"),
    "three then four": ("x.tsv", "a\tr\tb\na\tr\tb\t1\n", 2, "expected 3 columns as in the first row, found 4"),
    "four then three": ("x.tsv", "a\tr\tb\t1\n\na\tr\tb\n", 3, "expected 4 columns as in the first row, found 3"),
    "four then five": ("x.tsv", "a\tr\tb\t1\na\tr\tb\t1\t1\n", 2, "expected 3 or 4 tab-separated columns, found 5"),
    "empty head": ("x.tsv", "a\tr\tb\n\tr\tb\n", 2, "the head is empty"),
    "empty relation": ("x.tsv", "a\t\tb\n", 1, "the relation is empty"),
    "empty tail": ("x.tsv", "\n\na\tr\t\n", 3, "the tail is empty"),
    "blank head": ("x.tsv", "a\tr\tb\n \tr\tb\n", 2, "the head is empty"),
    "blank relation": ("x.tsv", "a\t\u3000\tb\n", 1, "the relation is empty"),
    "blank tail": ("x.tsv", "a\tr\t  \t1\n", 1, "the tail is empty"),
    "sign 0": ("x.tsv", "a\tr\tb\t1\na\tr\tb\t0\n", 2, "expected 1 or -1 in column 4, found '0'"),
    "sign +1": ("x.tsv", "a\tr\tb\t+1\n", 1, "found '+1'"),
    "sign with a space": ("x.tsv", "\na\tr\tb\t-1\na\tr\tb\t 1\n", 3, "found ' 1'"),
    "sign missing": ("x.tsv", "a\tr\tb\t\n", 1, "found ''"),
    "the first of several": ("x.tsv", "a\tr\tb\t1\na\tr\tb\t2\na\tr\n\t\t\n", 2, "found '2'"),
    "csv two columns": ("x.csv", "a,r,b\n\na,r\n", 3, "expected 3 or 4 comma-separated columns, found 2"),
    "csv of tabs": ("x.csv", "a\tr\tb\n", 1, "expected 3 or 4 comma-separated columns, found 1"),
    "csv behind a long cell": ("x.csv", '"a\nb\nc",r,b\na,r\n', 4, "columns, found 2"),
    "csv behind crlf": ("x.csv", "\r\na,r,b\r\na,r\r\n", 3, "columns, found 2"),
    "csv mixed widths": ("x.csv", "a,r,b\na,r,b,1\n", 2, "expected 3 columns as in the first row, found 4"),
    "csv empty label": ("x.csv", 'a,r,b\n"",r,b\n', 2, "the head is empty"),
    "csv blank label": ("x.csv", 'subject,predicate,object\n\na,r," "\n', 3, "the tail is empty"),
    "csv bad sign": ("x.csv", "a,r,b,true\n", 1, "expected 1 or -1 in column 4, found 'true'"),
    "csv text behind quotes": ("x.csv", 'a,r,b\n\n"a"x,r,b\n', 3, "not valid CSV"),
    "csv open quote": ("x.csv", 'a,r,b\na,r,"b', 2, "not valid CSV"),
    "csv giant cell": ("x.csv", "a,r,b\na,r," + "b" * 200_000, 2, "not valid CSV"),
    "empty file": ("x.tsv", "", None, "no triples here"),
    "only blank lines": ("x.tsv", "\n\r\n\n", None, "no triples here"),
    "only a byte order mark": ("x.tsv", "\ufeff", None, "no triples here"),
    "only a header": ("x.tsv", "head\trelation\ttail\n", None, "no triples here"),
    "empty csv": ("x.csv", "\n\n", None, "no triples here"),
    "invalid UTF-8": ("x.tsv", b"\n\na\tr\tb\n\na\tr\t\xe9\n", 5, "invalid UTF-8 (byte 0xe9)"),
    "invalid UTF-8 at once": ("x.csv", b"\xffa,r,b\n", 1, "invalid UTF-8 (byte 0xff)"),
    "cut UTF-8": ("x.tsv", "a\tr\tb\na\tr\té".encode()[:-1], 2, "invalid UTF-8 (byte 0xc3)"),
    "UTF-16": (
        "x.tsv",
        "a\tr\tb\n".encode("utf-16"),
        1,
        "UTF-16 text, by its byte-order mark; save the file as UTF-8",
    ),
    "UTF-16 backwards": (
        "x.csv",
        b"\xfe\xff" + "a,r,b".encode("utf-16-be"),
        1,
        "UTF-16 text, by its byte-order mark",
    ),
    "UTF-32": ("x.tsv", "a\tr\tb\n".encode("utf-32"), 1, "UTF-32 text, by its byte-order mark"),
    "UTF-16 without a mark": ("x.tsv", "a\tr\tb\n".encode("utf-16-le"), 1, "a NUL byte, as in UTF-16 text"),
    "a NUL byte": ("x.csv", b"a,r,b\na,r,\0\n", 2, "a NUL byte"),
    "lines parted by returns here and there": ("x.tsv", "a\tr\tb\rc\tr\td\na\tr\tb\n", 1, "a carriage return stands"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("packed", [False, True], ids=["text", "gzip"])
def test_a_bad_file_names_itself_and_the_line(tmp_path, case, packed):
    name, content, line, says = BAD[case]
    data = content.encode() if isinstance(content, str) else content
    path = write(tmp_path / (name + ".gz" if packed else name), gzip.compress(data) if packed else data)
    refuse(path, line, says)


def test_invalid_utf8_behind_a_byte_order_mark(tmp_path):
    path = write(tmp_path / "x.tsv", b"\xef\xbb\xbfa\tr\tb\n\xff\tr\tb\n")
    refuse(path, 2, "invalid UTF-8 (byte 0xff)")


def test_a_bad_csv_record_of_many_lines_is_named_by_its_first(tmp_path):
    refuse(write(tmp_path / "x.csv", 'a,r,b\n"x\ny\nz",r\n'), 2, "columns, found 2")


def test_an_open_quote_is_named_by_the_line_of_its_record(tmp_path):
    refuse(write(tmp_path / "x.csv", 'a,r,b\na,r,"b\nc,r,d\ne,r,f\n'), 2, "not valid CSV")


def test_a_false_line_behind_a_record_of_many_lines(tmp_path):
    refuse(write(tmp_path / "x.csv", '"a\nb\nc",r,b,1\n\n"a\nb",r,b,x\n'), 5, "found 'x'")


def test_a_said_header_alone_is_no_triple(tmp_path):
    refuse(write(tmp_path / "x.tsv", "a\tr\tb\n"), None, "no triples here", header=True)


def test_the_line_counts_a_said_header(tmp_path):
    refuse(write(tmp_path / "x.tsv", "a\tb\n\na\tr\tb\na\tr\n"), 4, "columns, found 2", header=True)


@pytest.mark.parametrize("damage", ["truncated", "checksum", "header", "stream", "tail"])
def test_damaged_gzip(tmp_path, damage):
    whole = gzip.compress(b"a\tr\tb\n" * 1000)
    data = {
        "truncated": whole[: len(whole) // 2],
        "checksum": whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        "header": b"\x1f\x8b",
        "stream": whole[:10] + b"\xff" * 20,
        "tail": whole + b"garbage",
    }[damage]
    refuse(write(tmp_path / "x.tsv.gz", data), None, "the gzip data is damaged")


def test_unreadable_files(tmp_path):
    refuse(tmp_path / "missing.tsv", None, "cannot be read: No such file or directory")
    refuse(tmp_path, None, "cannot be read: Is a directory")


# --- folders -----------------------------------------------------------------------------------------------------


def folder_of(tmp_path: Path, **files: str | bytes) -> Path:
    """Write files given as name_suffix=content; two underscores stand for a dot."""
    for name, content in files.items():
        write(tmp_path / name.replace("__", "."), content)
    return tmp_path


def test_a_folder_of_three_files(tmp_path, rows_of):
    folder_of(tmp_path, train__txt="a\tr\tb\nb\tq\tc\n", valid__tsv="a\tq\tc\n", test__csv="d,r,a\n")
    graph = read_folder(tmp_path)
    assert rows_of(graph, "train") == [("a", "r", "b", 1), ("b", "q", "c", 1)]
    assert rows_of(graph, "valid") == [("a", "q", "c", 1)]
    assert rows_of(graph, "test") == [("d", "r", "a", 1)]
    assert [graph.split(name).labels for name in ("train", "valid", "test")] == [None, None, None]
    assert graph.name == tmp_path.name
    assert [(source.name, source.rows) for source in graph.sources] == [
        ("train.txt", 2),
        ("valid.tsv", 1),
        ("test.csv", 1),
    ]


@pytest.mark.parametrize("suffix", ["txt", "tsv", "csv", "txt.gz", "tsv.gz", "csv.gz"])
def test_every_suffix_is_found(tmp_path, suffix, rows_of):
    data = b"a,r,b\n" if "csv" in suffix else b"a\tr\tb\n"
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.{suffix}", gzip.compress(data) if "gz" in suffix else data)
    graph = read_folder(tmp_path)
    assert [rows_of(graph, split) for split in ("train", "valid", "test")] == [[("a", "r", "b", 1)]] * 3


def test_fourth_column_in_valid_and_test(tmp_path, rows_of):
    folder_of(tmp_path, train__txt="a\tr\tb\t1\n", valid__txt="a\tr\ta\t-1\na\tr\tb\t1\n", test__txt="b\tr\tb\t-1\n")
    graph = read_folder(tmp_path)
    assert rows_of(graph, "train") == [("a", "r", "b", 1)]
    assert rows_of(graph, "valid") == [("a", "r", "a", -1), ("a", "r", "b", 1)]
    assert rows_of(graph, "test") == [("b", "r", "b", -1)]


def test_negatives_in_files_of_their_own(tmp_path, rows_of):
    folder_of(
        tmp_path,
        train__txt="a\tr\tb\n",
        valid__txt="b\tr\ta\n",
        valid_negatives__txt="a\tr\ta\nb\tr\tb\n",
        test__txt="b\tr\ta\t1\nb\tr\tb\t-1\n",
        test_negatives__csv="a,r,a\n",
    )
    graph = read_folder(tmp_path)
    assert rows_of(graph, "valid") == [("b", "r", "a", 1), ("a", "r", "a", -1), ("b", "r", "b", -1)]
    assert rows_of(graph, "test") == [("b", "r", "a", 1), ("b", "r", "b", -1), ("a", "r", "a", -1)]
    assert [source.name for source in graph.sources] == [
        "train.txt",
        "valid.txt",
        "valid_negatives.txt",
        "test.txt",
        "test_negatives.csv",
    ]


def test_a_negatives_file_may_say_its_own_signs(tmp_path, rows_of):
    folder_of(
        tmp_path,
        train__txt="a\tr\tb\n",
        valid__txt="b\tr\ta\n",
        valid_negatives__txt="a\tr\ta\t1\nb\tr\tb\t-1\n",
        test__txt="b\tr\ta\n",
    )
    assert rows_of(read_folder(tmp_path), "valid") == [("b", "r", "a", 1), ("a", "r", "a", 1), ("b", "r", "b", -1)]


def test_header_reaches_every_file_of_a_folder(tmp_path):
    row = "head\trelation\ttail\n"
    folder_of(tmp_path, train__txt=row + "a\tr\tb\n", valid__txt=row + "b\tr\ta\n", test__txt="x\ty\tz\nb\tr\tb\n")
    assert read_folder(tmp_path).counts() == {"entities": 4, "relations": 2, "train": 1, "valid": 1, "test": 2}
    assert read_folder(tmp_path, header=True).counts() == {
        "entities": 2,
        "relations": 1,
        "train": 1,
        "valid": 1,
        "test": 1,
    }
    assert len(read_folder(tmp_path, header=False).train) == 2


def test_a_folder_can_be_given_a_name(tmp_path, monkeypatch):
    folder_of(tmp_path, train__txt="a\tr\tb\n", valid__txt="a\tr\tb\n", test__txt="a\tr\tb\n")
    assert read_folder(tmp_path, name="mine").name == "mine"
    monkeypatch.chdir(tmp_path)
    assert read_folder(".").name == tmp_path.name


@pytest.mark.parametrize(
    ("present", "says"),
    [
        (["train", "valid"], "no file for test;"),
        (["valid"], "no file for train and test;"),
        ([], "no file for train and valid and test;"),
    ],
)
def test_a_missing_split(tmp_path, present, says):
    for split in present:
        write(tmp_path / f"{split}.txt", "a\tr\tb\n")
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: {says}")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no file for train and valid and test") as caught:
        read_folder(tmp_path / "nowhere")
    assert caught.value.path == tmp_path / "nowhere"


@pytest.mark.parametrize("stem", ["train", "test", "valid_negatives"])
def test_two_files_for_one_split(tmp_path, stem):
    folder_of(tmp_path, train__txt="a\tr\tb\n", valid__txt="a\tr\tb\n", test__txt="a\tr\tb\n")
    for name in (f"{stem}.txt", f"{stem}.tsv"):
        write(tmp_path / name, "a\tr\tb\n")
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path)
    assert str(caught.value) == f"{tmp_path}: both {stem}.txt and {stem}.tsv are here; keep one"


def test_a_bad_file_in_a_folder_is_named(tmp_path):
    folder_of(tmp_path, train__txt="a\tr\tb\n", valid__txt="a\tr\tb\n", test__txt="\n\na\tr\n")
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'test.txt'}:3: ")


def false_training_file(tmp_path: Path) -> Path:
    row = "a\tr\tb\n"
    folder_of(tmp_path, train__txt="\na\tr\tb\t1\na\tr\tc\t-1\na\tr\td\t-1\n", valid__txt=row, test__txt=row)
    return tmp_path / "train.txt"


def test_a_false_triple_in_train(tmp_path):
    path = false_training_file(tmp_path)
    with pytest.raises(DataError, match="`a r c` is labelled -1; move it to valid or test") as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(f"{path}:")


def test_a_false_triple_in_train_is_named_by_its_line(tmp_path):
    path = false_training_file(tmp_path)
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(f"{path}:3: ")


# --- writing -----------------------------------------------------------------------------------------------------


def test_write_folder_by_hand(tmp_path, build):
    graph = build(["a r b", "b r a", "a r b"], ["a r a 1", "b r b -1"], ["b q a"])
    assert write_folder(graph, tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    written = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {
        "train.txt": b"a\tr\tb\nb\tr\ta\na\tr\tb\n",
        "valid.txt": b"a\tr\ta\t1\nb\tr\tb\t-1\n",
        "test.txt": b"b\tq\ta\n",
    }


@pytest.mark.parametrize("label", ["a\tb", "a\nb", "b\n", "a\r", "a\0b"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_write_folder_refuses_labels_it_cannot_carry(tmp_path, label, place):
    row = ["x", "y", "z"]
    row[place] = label
    graph = encode("toy", {"train": tuple([cell] for cell in row)}, {})
    with pytest.raises(InputError, match="holds a tab or a line end") as caught:
        write_folder(graph, tmp_path / "new")
    assert repr(label) in str(caught.value)
    assert not (tmp_path / "new").exists()


def three_times(row: tuple[str, str, str]) -> KnowledgeGraph:
    columns = ([row[0]], [row[1]], [row[2]])
    return encode("toy", {"train": columns, "valid": columns, "test": columns}, {})


def test_a_written_toy_triple_comes_back(tmp_path):
    graph = three_times(("s", "p", "o"))
    assert read_folder(write_folder(graph, tmp_path)).fingerprint == graph.fingerprint


def test_a_written_triple_that_reads_like_a_header_comes_back(tmp_path):
    graph = three_times(("head", "relation", "tail"))
    assert read_folder(write_folder(graph, tmp_path)).fingerprint == graph.fingerprint


def test_a_first_label_that_begins_like_a_byte_order_mark_comes_back(tmp_path):
    graph = three_times(("\ufeffa", "r", "b"))
    assert read_folder(write_folder(graph, tmp_path)).fingerprint == graph.fingerprint


def test_write_folder_refuses_a_graph_with_an_empty_split(tmp_path, build):
    with pytest.raises(InputError, match="toy has no triples in valid and test; an empty file would not be readable"):
        write_folder(build(["a r b"]), tmp_path / "new")
    with pytest.raises(InputError, match="toy has no triples in test;"):
        write_folder(build(["a r b"], ["a r a"]), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- properties --------------------------------------------------------------------------------------------------

moderate = settings(max_examples=60, deadline=None)


def labels_without(excluded: str) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=excluded)
    texts = st.text(st.one_of(characters, st.sampled_from(" \"',\u2028\u2029\x85\x0b\x1c\r")), min_size=1, max_size=6)
    return st.one_of(st.sampled_from(AWKWARD), texts).filter(
        lambda label: not label.isspace() and not set(excluded) & set(label)
    )


def tables(labels: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str, str, int]]]:
    """Rows over few labels, so that some are copies of others."""
    few = st.lists(labels, min_size=1, max_size=4).map(st.sampled_from)
    signs = st.sampled_from([1, -1])
    return few.flatmap(lambda label: st.lists(st.tuples(label, label, label, signs), min_size=1, max_size=8))


tab_tables = tables(labels_without("\t\n\0").filter(lambda label: not label.endswith("\r")))
csv_tables = tables(labels_without("\0"))  # the csv module of Python 3.10 refuses NUL


@moderate
@given(
    tables=st.tuples(tab_tables, tab_tables, tab_tables), end=st.sampled_from(["\n", "\r\n"]), packed=st.booleans()
)
def test_what_write_folder_wrote_reads_back(tables, end, packed, rows_of):
    expected = dict(zip(("train", "valid", "test"), ([*table] for table in tables), strict=True))
    expected["train"] = [(*row[:3], 1) for row in expected["train"]]
    columns = {name: tuple([row[i] for row in rows] for i in range(3)) for name, rows in expected.items()}
    signs = {name: [row[3] for row in expected[name]] for name in ("valid", "test")}
    graph = encode("toy", columns, signs)
    with tempfile.TemporaryDirectory() as name:
        folder = write_folder(graph, name)
        for path in list(folder.iterdir()):
            data = path.read_bytes().replace(b"\n", end.encode())
            path.write_bytes(gzip.compress(data) if packed else data)
        back = read_folder(folder, header=False)
    assert {split: rows_of(back, split) for split in expected} == expected
    assert back.fingerprint == graph.fingerprint


@moderate
@given(
    table=csv_tables,
    end=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
    signed=st.booleans(),
    bom=st.booleans(),
    header=st.booleans(),
)
def test_what_the_csv_module_wrote_reads_back(table, end, packed, signed, bom, header):
    assume(bom or header or not table[0][0].startswith("\ufeff"))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL)
    width = 4 if signed else 3
    writer.writerows([("head", "relation", "tail", "label")[:width]] if header else [])
    writer.writerows(row[:width] for row in table)
    data = stream.getvalue().encode("utf-8-sig" if bom else "utf-8")
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name) / "x.csv", gzip.compress(data) if packed else data)
        back = read_triples(path, header=header)
        if header:
            assert read_triples(path).columns == back.columns
    assert list(zip(*back.columns, strict=True)) == [row[:3] for row in table]
    assert (None if back.signs is None else back.signs.tolist()) == ([row[3] for row in table] if signed else None)


PIECES = [
    b"a",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b",",
    b'"',
    b" ",
    b"\xff",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"1",
    b"-1",
]
PIECES += [b"a\tr\tb\n", b"a,r,b\n", b"head\trelation\ttail\n", b"\0", b"\x1f\x8b\x08"]


@settings(max_examples=150, deadline=None)
@given(
    data=st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)),
    packing=st.sampled_from(["none", "gzip", "cut", "magic"]),
    suffix=st.sampled_from([".tsv", ".csv"]),
    header=st.sampled_from([None, True, False]),
)
def test_any_bytes_give_triples_or_a_data_error(data, packing, suffix, header):
    whole = gzip.compress(data, mtime=0)
    content = {"none": data, "gzip": whole, "cut": whole[: 2 + len(data)], "magic": b"\x1f\x8b\x08" + data}[packing]
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name) / f"x{suffix}", content)
        try:
            read = read_triples(path, header)
        except InputError as error:  # a DataError, or for bytes that begin as zstd's the package that is missing
            assert isinstance(error, DataError) or "needs zstandard" in str(error)  # noqa: PT017 - either is right
            assert str(error).startswith(str(path))  # noqa: PT017
            return
    assert len(read) == read.source.rows > 0
    assert all(label.strip() for column in read.columns for label in column)


def test_train_negatives_are_refused(tmp_path, build):
    folder = write_folder(build(["a r b"], ["a r a"], ["b r a"]), tmp_path)
    (folder / "train_negatives.txt").write_text("b\tr\tb\n", "utf-8")
    with pytest.raises(DataError, match="remove train_negatives"):
        read_folder(folder)


def test_write_folder_refuses_what_cannot_be_read_back(tmp_path, build):
    for label in (" ", "\ud800"):
        with pytest.raises(InputError, match=r"row 1: the head is (empty|not text)"):
            write_folder(three_times((label, "r", "b")), tmp_path / "new")
    (tmp_path / "valid_negatives.txt").write_text("x\tr\ty\n", "utf-8")
    with pytest.raises(InputError, match=r"is not empty \(valid_negatives.txt"):
        write_folder(build(["a r b"], ["a r a"], ["b r a"]), tmp_path)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_uneven_lines_that_even_out_are_still_found(tmp_path, ending):
    """As many cells as three a line, but not three on each."""
    path = write(tmp_path / "x.tsv", ending.join(["a\tr\tb\t1", "a\tr", "a\tr\tb", ""]))
    with pytest.raises(DataError, match=r"x\.tsv:2: expected 3 or 4 tab-separated columns, found 2"):
        read_triples(path)


def test_a_header_may_be_narrower_than_its_rows(tmp_path):
    read = read_triples(write(tmp_path / "x.tsv", "head\trelation\ttail\na\tr\tb\t1\n"))
    assert tuple(map(tuple, read.columns)) == (("a",), ("r",), ("b",))
    assert list(read.lines) == [2]
