"""The flags that say how a table is read, as a user types them, and what is shown of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from staypositive.cli import app
from staypositive.cli.flags import parse_columns, parse_list
from staypositive.errors import DataError, InputError, SettingError

ROWS = ["knows,Grace,Ada", "knows,Alan,Grace", "likes,Ada,Alan", "knows,Ada,Grace"]
SAID = "head = Subject (column 3), relation = Predicate (1), tail = Object (2); first triple: Ada knows Grace"
TRAIN = (
    "--epochs",
    "1",
    "--dim",
    "2",
    "--model",
    "distmult",
    "--split",
    "1,0,0",
    "--device",
    "cpu",
    "--threads",
    "1",
)


def call(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    return done


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_training_says_which_column_is_what_without_verbose(tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv", "Predicate,Object,Subject", *ROWS)
    done = call("train", path, "--out", tmp_path / "run", *TRAIN)
    assert f"people.csv: {SAID}" in done.stderr
    assert "3 entities, 2 relations" in done.stdout
    done = call("train", path, "--out", tmp_path / "run", "--force", "--quiet", *TRAIN)
    assert done.stderr == ""
    plain = write(tmp_path / "plain.tsv", "Ada\tknows\tGrace", "Grace\tknows\tAda")
    assert call("train", plain, "--out", tmp_path / "run", "--force", *TRAIN).stderr == ""


def test_columns_blanks_and_words_for_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.csv", "Eigenschaft,Wert,Name,Quelle", *(f"{row},x" for row in ROWS), "knows,,Ada,x", "N/A,a,b,x"
    )
    columns = "subject=Name,predicate=Eigenschaft,object=Wert"
    shown = json.loads(
        call("datasets", "show", path, "--columns", columns, "--skip-blank", "--na", "N/A,-", "--json").stdout
    )
    assert shown["counts"]["entities"] == 3
    assert shown["notes"][0].startswith("head = Name (column 3), relation = Eigenschaft (1)")
    assert shown["notes"][1] == "2 rows left out: the head, relation or tail is empty or is '-' or 'N/A'"
    by_number = call(
        "datasets", "show", path, "--columns", "h=3,r=1,t=2", "--header", "--skip-blank", "--na", "N/A,-"
    )
    assert "first triple: Ada knows Grace" in by_number.stdout
    with pytest.raises(DataError, match="the tail is empty; --skip-blank"):
        call("datasets", "show", path, "--columns", columns)
    with pytest.raises(
        DataError, match="no column is called 'Nom', wanted as head; there are: Eigenschaft, Wert, Na"
    ):
        call("datasets", "show", path, "--columns", "subject=Nom")


def test_cleaning_a_file_whose_columns_have_names_says_what_it_dropped(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.csv", "Predicate,Object,Subject", *ROWS)
    said = call("datasets", "clean", tmp_path, "--out", tmp_path / "clean").stdout
    assert said.startswith("nothing to drop; written to")


def test_shards_take_the_same_flags(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="streamed graphs need numba")
    lines = [line.replace(",", "\t") for line in ("Eigenschaft,Wert,Name", *ROWS, "knows,-,Ada")]
    path = write(tmp_path / "a.tsv", *lines)
    columns = "subject=Name,predicate=Eigenschaft,object=Wert"
    done = call("ingest", path, "--out", tmp_path / "graph", "--columns", columns, "--na", "-", "--name", "mine")
    assert "a.tsv: head = Name (column 3)" in done.stderr
    assert "a.tsv: 1 rows left out: the head, relation or tail is '-'" in done.stderr
    assert "mine: 3 entities, 2 relations" in done.stdout


def test_extending_a_run_takes_the_same_flags(tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv", "Predicate,Object,Subject", *ROWS)
    call("train", path, "--out", tmp_path / "run", "--quiet", *TRAIN)
    new = write(tmp_path / "new.csv", "Eigenschaft,Wert,Name", "knows,Ada,Kurt", "knows,,Kurt")
    columns = "subject=Name,predicate=Eigenschaft,object=Wert"
    done = call("extend", tmp_path / "run", new, "--out", tmp_path / "more", "--columns", columns, "--skip-blank")
    assert "1 new entities and 1 new facts" in done.stdout
    assert "new.csv: head = Name (column 3)" in done.stderr


def test_lists_as_they_are_typed() -> None:
    assert parse_columns(None) is None
    assert parse_columns('head=3,"relation=a, b",label=') == {"head": 3, "relation": "a, b", "label": ""}
    assert parse_list('N/A,-,"a,b"') == ["N/A", "-", "a,b"]
    assert parse_list(None) == []
    for text in ("head", "head=a,head=b"):
        with pytest.raises(InputError, match="--columns is a list such as head=Name,relation=2"):
            parse_columns(text)
    with pytest.raises(InputError, match="expected a list with commas"):
        parse_list('"a')
    with pytest.raises(SettingError, match="no role is called 'Kopf'"):
        call("datasets", "show", "geo", "--columns", "Kopf=1")
