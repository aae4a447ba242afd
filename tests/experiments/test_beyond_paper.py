"""Figures of what goes beyond the paper: their bars, their bins, and the command that draws them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from experiments.__main__ import app
from experiments.artifacts import Artifact, background_artifact
from experiments.paper.beyond_paper import ELSEWHERE, FIGURES, nll_bars, pooled_bins, ranking_bars
from experiments.store import add_rows, read_results
from experiments.tables import beyond_paper as tables
from staypositive.evaluation import classification_metrics, sigmoid

ROOT = Path(__file__).resolve().parents[2]
RANKED = {"metric": "mrr", "filter": "filtered", "ties": "realistic", "side": "both", "split": "test"}
MOMENTS = {"experiment": "second-moment", "model": "complex", "objective": "second-moment"}
PAPER = {"experiment": "table2", "dataset": "WN18AM"}


@pytest.fixture(scope="module")
def kept() -> Artifact:
    """What a small second-moment run gives on labelled triples."""
    graph = planted_graph()
    run = sp.fit(graph, model="complex", objective="second-moment", dim=6, epochs=20, batch_size=64, init_scale=0.5)
    return background_artifact(graph, run.model, MOMENTS | {"dataset": "FB13", "seed": 0})


@pytest.fixture
def results(kept: Artifact, tmp_path: Path) -> Path:
    """A folder of results with something for every figure."""
    folder = tmp_path / "results"
    kept.write(folder / "artifacts" / "one.xz")
    rows: list[dict[str, Any]] = [
        PAPER | RANKED | {"model": "distmult", "objective": "stay-positive", "value": 0.45, "seed": 0},
        PAPER | RANKED | {"model": "distmult", "objective": "stay-positive", "value": 0.43, "seed": 1},
        PAPER | RANKED | {"model": "distmult", "objective": "negative-sampling", "value": 0.46},
        PAPER | RANKED | {"model": "distmult", "objective": "negative-sampling", "value": 0.99, "ties": "optimistic"},
        PAPER | RANKED | {"model": "distmult", "objective": "negative-sampling", "value": 0.9, "filter": "raw"},
        *(MOMENTS | RANKED | {"dataset": name, "value": 0.48} for name in ("WN18AM", "WN18RR")),
    ]
    add_rows(folder, rows + kept.rows("artifacts/one.xz"))
    return folder


def test_bars_of_the_paper_and_of_second_moments(results: Path) -> None:
    bars = ranking_bars(read_results(results), "WN18AM")
    assert [(bar.name, round(bar.mean, 3), bar.published) for bar in bars] == [
        ("spDistMult", 0.44, 0.448), ("DistMult", 0.46, 0.44), ("second moment, ComplEx", 0.48, None),
    ]  # fmt: skip
    assert bars[0].deviation == pytest.approx(np.std([0.45, 0.43], ddof=1))
    assert bars[1].deviation == 0
    assert [bar.kind for bar in bars[:2]] == ["stay-positive, no negative drawn", "negative sampling"]
    assert ranking_bars(read_results(results), "CoDEx-S") == []  # nothing of ours to stand beside


def test_published_bars_stand_among_ours(results: Path) -> None:
    rows = read_results(results)
    bars = ranking_bars(rows, "WN18RR")
    assert [bar.name for bar in bars if bar.kind != ELSEWHERE] == ["second moment, ComplEx"]
    assert [bar.mean for bar in bars] == sorted(bar.mean for bar in bars)
    assert all("NS-KGE" not in bar.name for bar in bars)  # its MRR is not published
    losses = nll_bars(rows, "FB13")
    assert [bar.mean for bar in losses] == sorted((bar.mean for bar in losses), reverse=True)
    assert {bar.name for bar in losses} >= {"posterior", "null-logistic", "platt", "HolE + histogram"}
    assert [bar.name for bar in losses if bar.kind == "fitted to facts alone"] == ["posterior"]


@pytest.mark.parametrize("way", ["posterior", "platt"])
def test_bins_are_those_of_the_triples_one_by_one(kept: Artifact, way: str) -> None:
    logits, truth = kept.calibrated(way)[0], kept.arrays["test_signs"] > 0
    probabilities = sigmoid(logits)
    stated, true, triples = pooled_bins([kept, kept], way, bins=4)
    expected = []
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (probabilities >= low) & (probabilities < low + 0.25)
        if inside.any():
            expected.append((probabilities[inside].mean(), truth[inside].mean(), 2 * inside.sum()))
    np.testing.assert_allclose(np.stack([stated, true, triples], axis=1), expected)
    found = {row["metric"]: row["value"] for row in kept.rows() if row["calibration"] == way}
    assert classification_metrics(logits, kept.arrays["test_signs"])["nll"] == found["nll"]  # as `results check`


def test_the_command_draws_every_figure(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = tmp_path / "figures"
    place = ["reproduce", "beyond_paper", "--plots", str(plots), "--device", "cpu"]
    assert CliRunner().invoke(app, [*place, "--results", str(results), "--dry-run"]).exit_code == 0
    assert not plots.exists()
    done = CliRunner().invoke(app, [*place, "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in plots.iterdir()} == {f"{name}.png" for name in FIGURES}
    assert all(path.stat().st_size > 5000 for path in plots.iterdir())
    nothing = CliRunner().invoke(
        app, ["reproduce", "beyond_paper", "--results", str(tmp_path), "--plots", str(tmp_path / "x")]
    )
    assert "no second-moment result yet" in nothing.output
    assert not list((tmp_path / "x").iterdir())


def test_tables_of_spread_and_als() -> None:
    def row(experiment: str, setting: str, metric: str, value: float) -> dict[str, str]:
        return {"experiment": experiment, "dataset": "X", "setting": setting, "metric": metric, "value": str(value)}

    rows = [
        row("spread", f"gram_update_interval {steps}, 5 epochs; lr 0.1", metric, value)
        for steps in (16, 4)
        for metric, value in (("mrr", 0.3), ("mrr", 0.5), ("epoch_cpu_seconds", steps / 2))
    ]
    assert tables.spread(rows).splitlines()[2:] == [
        "| X | 4 | 0.400 ± 0.141 | 2.000 |",
        "| X | 16 | 0.400 ± 0.141 | 8.000 |",
    ]
    rows = [row("als", f"steps; {n} passes; w0 0", metric, n) for n in (10, 2) for metric in ("mrr", "cpu_seconds")]
    assert tables.als(rows).splitlines()[2:] == ["| steps | 2 | 2.000 | 2.0 |", "| steps | 10 | 10.000 | 10.0 |"]


def test_the_docs_show_every_figure() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    for name in FIGURES:
        assert f"(images/{name}.png)" in text
        assert (ROOT / "docs" / "images" / f"{name}.png").exists()
