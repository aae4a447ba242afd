"""The index of results: columns, replacing, rows of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import staypositive as sp
from experiments.store import COLUMNS, add_rows, read_results, rows_of_run
from staypositive.errors import DataError, InputError


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
    index = tmp_path / "index.csv"
    assert add_rows(index, rows) == len(rows)
    assert add_rows(index, rows) == len(rows)  # the same cells again take the same places
    assert sorted(map(str, read_results(index))) == sorted(map(str, rows))


def test_a_new_value_replaces_the_old(tmp_path: Path) -> None:
    index = tmp_path / "index.csv"
    assert read_results(index) == []
    for value in (1, 2):
        add_rows(index, [{"experiment": "a", "metric": "mrr", "value": value}])
    add_rows(index, [{"experiment": "a", "metric": "mrr", "value": 0.123456789, "seed": 1}])
    assert [row["value"] for row in read_results(index)] == ["2", "0.123457"]


def test_bad_rows_and_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column mood"):
        add_rows(tmp_path / "index.csv", [{"mood": "good"}])
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(DataError, match="expected the columns"):
        read_results(tmp_path / "other.csv")


def test_the_committed_index_is_well_formed() -> None:
    rows = read_results(Path(__file__).resolve().parents[2] / "results" / "index.csv")
    for row in rows:
        assert float(row["value"]) == float(row["value"])
        assert row["command"]
        assert row["selected_on"] in ("valid", "valid-positives", "fixed")
