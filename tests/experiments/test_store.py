"""The results: columns, replacing, rows of a run, two tables and the one that they join to."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import staypositive as sp
from experiments.__main__ import app
from experiments.artifacts import Artifact
from experiments.store import (
    COLUMNS,
    FIGURES,
    RUNS,
    add_rows,
    read_results,
    rows_of_run,
    setting_as_json,
    setting_as_text,
    write_results,
)
from staypositive.errors import DataError, InputError

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_rows_of_a_run_carry_value_and_origin(planted_run: sp.Run, tmp_path: Path) -> None:
    planted_run.calibrate("platt")
    report = planted_run.evaluate("test")
    options = {"experiment": "x", "setting": "quick", "selected_on": "valid"}
    rows = rows_of_run(planted_run, "test", "make it", **options)
    assert all(tuple(row) == COLUMNS for row in rows)
    plain = [
        r
        for r in rows
        if (r["filter"], r["ties"], r["side"], r["metric"]) == ("filtered", "realistic", "both", "mrr")
    ]
    assert float(plain[0]["value"]) == pytest.approx(
        report["ranking"]["filtered"]["realistic"]["both"]["mrr"], rel=1e-5
    )
    platt = [r for r in rows if (r["calibration"], r["metric"]) == ("platt", "nll")]
    assert float(platt[0]["value"]) == pytest.approx(report["classification"]["all"]["platt"]["nll"], rel=1e-5)
    assert {r["data_sha256"] for r in rows} == {planted_run.graph.fingerprint}
    assert {r["negatives_drawn"] for r in rows} == {"0"}
    assert [r["unit"] for r in rows if r["metric"] == "epoch_seconds"] == ["s"]
    index = tmp_path
    assert add_rows(index, rows) == len(rows)
    assert add_rows(index, rows) == len(rows)  # the same cells again take the same places
    assert sorted(map(str, read_results(index))) == sorted(map(str, rows))


def test_a_new_value_replaces_the_old(tmp_path: Path) -> None:
    index = tmp_path
    assert read_results(index) == []
    for value in (1, 2):
        add_rows(index, [{"experiment": "a", "metric": "mrr", "value": value}])
    add_rows(index, [{"experiment": "a", "metric": "mrr", "value": 0.123456789, "seed": 1}])
    assert [row["value"] for row in read_results(index)] == ["2", "0.123457"]


def test_bad_rows_and_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column mood"):
        add_rows(tmp_path, [{"mood": "good"}])
    (tmp_path / "runs.jsonl").write_text("", "utf-8")
    (tmp_path / "figures.csv").write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(DataError, match=r"figures\.csv:1: expected the columns"):
        read_results(tmp_path)
    add_rows(other := tmp_path / "other", [{"experiment": "a", "metric": "mrr", "value": 1}])
    (other / "runs.jsonl").write_text("", "utf-8")
    with pytest.raises(DataError, match=r"figures\.csv:2: runs\.jsonl has no run a-\w+"):
        read_results(other)
    (other / "runs.jsonl").write_text("[]\n", "utf-8")
    with pytest.raises(DataError, match=r"runs\.jsonl:1: not a run"):
        read_results(other)


def test_the_committed_index_is_well_formed() -> None:
    rows = read_results(RESULTS)
    for row in rows:
        assert float(row["value"]) == float(row["value"])
        assert row["command"]
        assert row["selected_on"] in ("valid", "valid-positives", "fixed")


def test_the_committed_results_are_small_and_as_written(tmp_path: Path) -> None:
    rows = read_results(RESULTS)
    write_results(tmp_path, rows)
    for name in (RUNS, FIGURES):
        assert (tmp_path / name).read_bytes() == (RESULTS / name).read_bytes()
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 8_000_000


def test_the_flat_table_has_every_figure_and_makes_the_results_again(tmp_path: Path) -> None:
    out = tmp_path / "flat.csv"
    done = CliRunner().invoke(app, ["results", "flat", str(out), "--results", str(RESULTS)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(out.read_text("utf-8"), newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert rows == read_results(RESULTS)
    add_rows(tmp_path / "again", rows)
    for name in (RUNS, FIGURES):
        assert (tmp_path / "again" / name).read_bytes() == (RESULTS / name).read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr 0.1, d 200, ψ -2", [{"lr": 0.1, "d": 200, "ψ": -2}]),
        ("power: power 1; lr 1e-05", [{"power": {"power": 1}}, {"lr": 1e-05}]),
        ("lr 0.10", ["lr 0.10"]),  # as numbers, it would read otherwise
        ("a 1, a 2", ["a 1, a 2"]),
        ("idle; two programs", ["idle", "two programs"]),
        ("reciprocal True, n 1", [{"reciprocal": True, "n": 1}]),
    ],
)
def test_settings_as_json_read_as_they_did(text: str, expected: list[object]) -> None:
    assert setting_as_json(text) == expected
    assert setting_as_text(setting_as_json(text)) == text


def test_figures_of_another_folder_are_added(tmp_path: Path) -> None:
    arrays = {name: np.arange(6) for name in ("better", "ties", "raw_better", "raw_ties")}
    artifact = Artifact({"experiment": "x", "seed": 0}, arrays)
    artifact.write(tmp_path / "there" / "artifacts" / "x-0.xz")
    add_rows(tmp_path / "there", artifact.rows("artifacts/x-0.xz"))
    call = ["results", "add", str(tmp_path / "there"), "--results", str(tmp_path / "here")]
    assert CliRunner().invoke(app, call).exit_code == 0
    assert read_results(tmp_path / "here") == read_results(tmp_path / "there") != []
    assert CliRunner().invoke(app, ["results", "check", "--results", str(tmp_path / "here")]).exit_code == 0
    (tmp_path / "more.csv").write_text("experiment,metric,value\ny,mrr,0.5\n", "utf-8")
    assert CliRunner().invoke(app, ["results", "add", str(tmp_path / "more.csv"), *call[3:]]).exit_code == 0
    assert read_results(tmp_path / "here")[-1]["value"] == "0.5"
    nothing = CliRunner().invoke(app, ["results", "add", str(tmp_path / "nowhere")])
    assert isinstance(nothing.exception, InputError)
