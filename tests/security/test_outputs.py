"""No label gives an order to whatever shows it: a terminal, a page, a spreadsheet, or another program's parser."""

from __future__ import annotations

import csv
import html
import io
import json
import logging
import re
import sys
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pytest

import staypositive as sp
from security.conftest import HOSTILE
from staypositive.cli import main
from staypositive.cli.console import VisibleFormatter
from staypositive.errors import DataError, InputError
from staypositive.inference import PartialDiscovery, discover, discovery_table
from staypositive.interop import export_embeddings, export_graph, write_table
from staypositive.interop.exports import FORMULA
from staypositive.reports import render_report
from staypositive.text import visible, visible_json

ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def shell(*words: object) -> int:
    """Run a command as a user would, and return its exit code."""
    with patch.object(sys, "argv", ["staypositive", *map(str, words)]):
        try:
            main()
        except SystemExit as done:
            return int(done.code or 0)
    return 0


# -- terminals --------------------------------------------------------------------------------------------------


def test_visible_leaves_nothing_that_acts() -> None:
    for code in range(sys.maxunicode + 1):
        shown = visible(chr(code))
        kind = unicodedata.category(chr(code))
        assert not ORDERS.search(shown), hex(code)
        if kind in ("Cc", "Cs", "Zl", "Zp"):
            assert shown.isascii(), hex(code)
        if kind[0] in "LMNPS":
            assert shown == chr(code), hex(code)


@pytest.mark.parametrize("value", [*HOSTILE, {"k\u202e": ["\x9b", 1, None]}])
def test_visible_json_says_the_same(value: object) -> None:
    written = visible_json(value)
    assert json.loads(written) == value
    assert not ORDERS.search(written)


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "RUN", "--head", HOSTILE[0], "--relation", "=r()", "--top", 50),
        ("predict", "RUN", "--head", HOSTILE[0], "--relation", "=r()", "--top", 50, "--json"),
        ("predict", "RUN", "--similar", HOSTILE[5], "--top", 50),
        ("predict", "RUN", "--head", "\x1b[2Jnobody\n", "--relation", "=r()"),
        ("explain", "RUN", "--head", HOSTILE[0], "--relation", "\x1b[1mr", "--tail", HOSTILE[1]),
        ("stats", "RUN"),
        ("evaluate", "RUN", "--per-relation"),
        ("discover", "RUN", "--top", 60),
        ("discover", "RUN", "--top", 60, "--json"),
    ],
)
def test_no_command_prints_an_order(
    hostile_folder: Path, capfd: pytest.CaptureFixture[str], words: tuple[object, ...]
) -> None:
    shell(*(hostile_folder if word == "RUN" else word for word in words))
    out, err = capfd.readouterr()
    assert out or err
    assert not ORDERS.search(out + err)


def test_markup_and_emoji_codes_are_shown_as_they_are(
    hostile_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shell("predict", hostile_folder, "--head", HOSTILE[0], "--relation", "=r()", "--top", 50)
    out = capfd.readouterr().out
    for label in (
        "[red]markup[/red]",
        "[link=http://x]y[/link]",
        ":smile:",
        "line\\nfeed",
        "\\u202eevil",
        "\\x1b[31mred",
    ):
        assert label in out, label


def test_datasets_and_errors_print_no_order(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "\x1b[31mname.tsv"
    path.write_text("\x1b[1ma\tr\tb\t1\n\x1b[1ma\tr\tb\t-1\nb\tr\tc\t1\n", "utf-8")
    shell("datasets", "show", path)
    assert shell("train", tmp_path / "\x1b[31mnone.tsv") == 2
    out, err = capfd.readouterr()
    assert "\\x1b[31mnone.tsv" in err
    assert not ORDERS.search(out + err)


def test_log_records_are_one_line_each() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", ("/a\x1b[31m\nforged",), None)
    assert VisibleFormatter("%(message)s").format(record) == "/a\\x1b[31m\\nforged"
    try:
        raise DataError("bad \x1b[31m")
    except DataError:
        record.exc_info = sys.exc_info()
    told = VisibleFormatter("%(message)s").format(record)
    assert "\x1b" not in told
    assert "Traceback" in told.split("\n")[1]


# -- pages ------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_no_label_becomes_markup_in_the_report(hostile_run: sp.Run) -> None:
    page = render_report(hostile_run)
    tags = Tags()
    tags.feed(page)
    assert not tags.names & {"script", "img", "i", "iframe", "object", "base", "form", "input"}
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "style", "srcdoc")]
    assert not ORDERS.search(page)
    assert html.escape("<script>hit()</script>") in page


# -- spreadsheets and other programs -----------------------------------------------------------------------------


@pytest.fixture
def answers(hostile_run: sp.Run) -> pd.DataFrame:
    return hostile_run.predict(head=HOSTILE[0], relation="=r()", top=len(HOSTILE))


def test_labels_go_to_csv_and_tsv_to_the_letter(answers: pd.DataFrame, tmp_path: Path) -> None:
    for name, mark in (("x.csv", ","), ("x.tsv", "\t")):
        write_table(answers, tmp_path / name)
        text = (tmp_path / name).read_bytes().decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline="\n"), delimiter=mark))
        assert [row[0] for row in rows[1:]] == answers["tail"].tolist()


def test_a_csv_that_spreadsheets_would_run_is_warned_of(
    answers: pd.DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_table(answers, tmp_path / "x.csv")
    begin = sum(label.startswith(FORMULA) for label in HOSTILE)
    assert f"would take {begin} cells for formulas; see --spreadsheet-safe" in caplog.text
    caplog.clear()
    write_table(answers, tmp_path / "x.csv", spreadsheet_safe=True)
    write_table(answers, tmp_path / "x.tsv")
    assert not caplog.text


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_spreadsheet_safe_cells_are_text(answers: pd.DataFrame, tmp_path: Path, name: str) -> None:
    write_table(answers, tmp_path / name, spreadsheet_safe=True)
    text = (tmp_path / name).read_bytes().decode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="\n"), delimiter="," if "csv" in name else "\t"))
    for (cell, *numbers), label in zip(rows[1:], answers["tail"], strict=True):
        assert not cell.startswith(FORMULA)
        assert cell.removeprefix("'") == label
        float(numbers[0])


def test_other_formats_are_not_made_safe(answers: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"only CSV and TSV files are made safe"):
        write_table(answers, tmp_path / "x.parquet", spreadsheet_safe=True)


@pytest.mark.parametrize("verb", [("predict", "--head", HOSTILE[0], "--relation", "=r()"), ("stats",),
                                  ("discover", "--top", 60)])  # fmt: skip
def test_every_command_that_writes_a_table_can_make_it_safe(
    hostile_folder: Path, tmp_path: Path, verb: tuple[object, ...]
) -> None:
    out = tmp_path / "x.csv"
    assert shell(verb[0], hostile_folder, *verb[1:], "--out", out, "--spreadsheet-safe", "--quiet") == 0
    rows = list(csv.reader(io.StringIO(out.read_bytes().decode("utf-8"), newline="\n")))[1:]
    assert rows
    labels = [cell for row in rows for cell in row if not re.fullmatch(r"-?[\d.e-]*|True|False", cell)]
    assert labels
    assert not [cell for cell in labels if cell.startswith(FORMULA)]


def test_a_stopped_search_goes_on_with_the_same_labels(hostile_run: sp.Run, tmp_path: Path) -> None:
    whole = hostile_run.discover(top=60)
    assert set(whole["tail"]) & set(HOSTILE)
    kept = PartialDiscovery(tmp_path / "x.partial", {"a": 1})
    for found in discover(hostile_run.predictor, most=60):
        kept.add(found)
    again = PartialDiscovery(tmp_path / "x.partial", {"a": 1})
    pd.testing.assert_frame_equal(discovery_table(hostile_run.predictor, again.found.values(), 60), whole)


def test_every_line_of_word2vec_is_one_label(hostile_run: sp.Run, tmp_path: Path) -> None:
    export_embeddings(hostile_run, tmp_path, "word2vec")
    lines = (tmp_path / "entities.txt").read_text("utf-8").split("\n")[1:-1]
    assert len(lines) == len(HOSTILE)
    assert all(len(line.split(" ")) == 1 + hostile_run.model.entity_rows().shape[1] for line in lines)


def test_labels_that_tsv_cannot_carry_are_refused(hostile_run: sp.Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds a tab or a line end"):
        export_graph(hostile_run.graph, tmp_path / "tsv", "tsv")


def test_every_statement_of_ntriples_is_one_triple(hostile_run: sp.Run, tmp_path: Path) -> None:
    export_graph(hostile_run.graph, tmp_path / "nt", "nt")
    text = (tmp_path / "nt" / "train.nt").read_bytes().decode("utf-8")
    lines = text.split("\n")[:-1]
    assert len(lines) == len(hostile_run.graph.train)
    escape = r"\\[tbnrf\"'\\]|\\u[0-9A-Fa-f]{4}"
    term = rf"(?:<[^\x00-\x20<>\"{{}}|^`\\]+>|_:\w+|\"(?:[^\"\\\r\n]|{escape})*\"\S*)"
    assert not [line for line in lines if not re.fullmatch(rf"{term} <[^<> ]+> {term} \.", line)]
