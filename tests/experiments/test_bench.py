"""The benchmark measures what it says; how fast anything is, is never asserted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from conftest import planted_graph
from experiments.__main__ import app
from experiments.paper.theorems import bench_theorem
from experiments.plots import plot_figures
from experiments.speed import timing as bench
from experiments.speed.eager import EagerStayPositive
from experiments.speed.pykeen_side import bench_pykeen
from experiments.store import COLUMNS, read_results
from staypositive.errors import InputError, SettingError
from staypositive.models import build_model
from staypositive.objectives import StayPositive
from staypositive.training import AdaGrad
from stepping import stepped

CPU = torch.device("cpu")


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", ["distmult", "simple"])
def test_the_eager_yardstick_takes_our_steps(name: str) -> None:
    draw = torch.Generator().manual_seed(0)
    facts = torch.stack([torch.randint(n, (40,), generator=draw) for n in (9, 3, 9)], dim=1)
    model = build_model(name, 9, 3, 5)
    model.initialise(draw)
    eager = EagerStayPositive(name, model.entities.data, model.relations.data, penalty=0.1 / 4, learning_rate=0.1)
    tables = {"entities": model.entities.data, "relations": model.relations.data}
    engine = stepped("autograd", model, StayPositive(), AdaGrad(tables, 0.1), facts, 10, 0)
    for batch in facts.split(10):
        terms = engine.step(batch)
        torch.testing.assert_close(eager.step(batch), terms["facts"] + terms["penalty"])
        torch.testing.assert_close(eager.entities.data, model.entities.data)


def test_bytes_per_fact_by_hand() -> None:
    facts = np.array([(0, 0, 1), (1, 0, 2), (3, 1, 4), (3, 1, 3)])
    load = bench.Workload("toy", facts, 5, 2)
    figure = bench.bytes_per_fact(load, 4, entity_width=10, relation_width=20)
    assert figure["entity_rows_per_batch"] == 5
    assert figure["bytes_per_fact"] == (16 * (5 * 10 + 2 * 20) + 4 * 12) / 4


def test_synthetic_workloads_follow_a_power_law() -> None:
    load = bench.Workload.synthetic(1000, 20_000, n_relations=7)
    assert load.facts.shape == (20_000, 3)
    assert load.facts[:, [0, 2]].max() < 1000
    assert load.facts[:, 1].max() == 6
    assert (load.facts[:, 0] < 250).mean() == pytest.approx(0.5, abs=0.02)  # uniform² < ¼ half the time


def test_theorem_and_enumeration_agree() -> None:
    figure = bench_theorem(40, 3, "complex", 8, repeats=1)
    assert figure["difference_of_means"] < 1e-6
    assert figure["ratio"] == pytest.approx(figure["enumeration_seconds"] / figure["theorem_seconds"])


def test_bench_command(tmp_path: Path) -> None:
    parts = "engines,ranking,theorem,batch,dim,negatives"
    arguments = [
        "bench",
        "geo",
        "--models",
        "distmult",
        "--dim",
        "8",
        "--parts",
        parts,
        "--repeats",
        "1",
        "--no-pykeen",
    ]
    out, index = tmp_path / "figures.json", tmp_path / "results"
    text = call(*arguments, "--out", out, "--plots", tmp_path / "plots", "--results", index)
    assert "Epochs on geo" in text
    assert "distmult, fused" in text
    assert "eager dense" in text
    assert "Theorem 1 against enumeration" in text
    figures = json.loads(out.read_text("utf-8"))
    assert figures[0]["bandwidth"] > 0
    assert {f.get("negatives") for f in figures[1:]} >= {0, 1, 10}
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"epochs.png", "theorem.png"}
    rows = read_results(index)
    assert {"epoch_seconds", "ranking_seconds", "theorem_seconds", "bandwidth_fraction"} <= {
        r["metric"] for r in rows
    }
    assert tuple(rows[0]) == COLUMNS


def test_growth_with_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    small = bench.Workload.synthetic(100, 300)
    monkeypatch.setattr(bench.Workload, "synthetic", classmethod(lambda cls, *a, **k: small))
    figures = json.loads(call("bench", "geo", "--parts", "entities,facts", "--repeats", "1", "--json"))
    assert [f["dim"] for f in figures[1:]] == [32] * 8


def test_bad_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="expected parts among"):
        call("bench", "geo", "--parts", "mood")
    with pytest.raises(SettingError, match="block models"):
        call("bench", "geo", "--models", "hole")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(InputError, match="pip install matplotlib"):
        plot_figures([], tmp_path)


def test_pykeen_beside_us() -> None:
    pytest.importorskip("pykeen", reason="PyKEEN is not installed; it is compared where it is")
    load = bench.Workload.synthetic(50, 400, n_relations=3)
    load = bench.Workload(load.name, load.facts, 50, 3, load.facts[:9], load.facts)
    assert [f["engine"] for f in bench_pykeen(load, 4, 64, 1)] == ["PyKEEN", "PyKEEN ranking"]


def test_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        name = "planted"

        def fetch_all(self) -> dict[str, list[Path]]:
            return {"train": []}

        def parse(self, paths: dict[str, list[Path]]) -> object:
            return planted_graph()

        def load(self) -> object:
            return planted_graph()

    monkeypatch.setattr(bench, "find_dataset", lambda name: Known())
    figure = bench.bench_loading("planted", 1)
    assert figure["parse_seconds"] > 0
    assert figure["cached_seconds"] > 0
    rows = bench.rows_of_figures([figure], "cpu", "a command")
    assert {row["metric"] for row in rows} == {"parse_seconds", "cached_seconds"}
