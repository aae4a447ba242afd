"""The run that comes with the package: small, whole, found by name, never written to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from staypositive.cli import app
from staypositive.errors import RunError, SettingError
from staypositive.run import is_packaged, packaged_runs
from staypositive.run.folder import find_run


def test_geo_demo_is_small_and_needs_no_pickle() -> None:
    assert packaged_runs() == ("geo-demo",)
    files = list(find_run("geo-demo").iterdir())
    assert sum(path.stat().st_size for path in files) < 3_000_000
    assert {path.suffix for path in files} == {".json", ".safetensors"}


def test_geo_demo_is_the_embedded_graph_and_knows_it_well() -> None:
    run = sp.load_run("geo-demo")
    assert run.graph.fingerprint == sp.load_graph("geo").fingerprint
    assert "+changes" not in run.provenance["commit"]
    assert run.model.entities.dtype == torch.float32
    assert run.metrics["test"]["ranking"]["filtered"]["realistic"]["both"]["mrr"] > 0.6
    assert run.predict("Japan", "has_currency", top=1)["tail"].item() == "Yen (JPY)"


def test_what_was_measured_is_what_is_kept() -> None:
    run = sp.load_run("geo-demo")
    kept = run.metrics["test"]["classification"]["all"]["uncalibrated"]["nll"]
    again = run.evaluate("test", ranking=False, discovery=False)["classification"]["all"]["uncalibrated"]["nll"]
    assert again == pytest.approx(kept, rel=1e-5)


def test_geo_demo_says_what_a_person_would_sign() -> None:
    """Known facts are likely as if they were unknown; nonsense, and pairs of the wrong type, are not."""
    run = sp.load_run("geo-demo")
    assert run.posterior is not None
    true = [("France", "borders", "Spain"), ("Germany", "borders", "Poland"), ("Japan", "has_currency", "Yen (JPY)")]
    for top in run.metrics["test"]["discovery"]["tops"]:
        assert abs(top["stated"] - top["true"]) < 0.06
    at_test = run.posterior.assuming(run.metrics["test"]["discovery"]["completeness"])
    ids = [run.graph.entities.id, run.graph.relations.id, run.graph.entities.id]
    nonsense = [
        ("Germany", "borders", "Italy"),
        ("Japan", "has_currency", "Euro (EUR)"),
        ("France", "borders", "Yen (JPY)"),
    ]
    stated = [
        at_test.log_odds(run.predictor.evidence, np.array([[of(word) for of, word in zip(ids, one, strict=True)]]))[0]
        for one in (*true, *nonsense)
    ]
    assert min(stated[:3]) > max(stated[3:])
    assert max(run.predict_proba(nonsense)) < 0.01


def test_a_folder_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted_run: sp.Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_packaged("geo-demo")
    assert is_packaged(Path("geo-demo"))
    assert not is_packaged(tmp_path / "geo-demo")
    planted_run.save("geo-demo")
    assert not is_packaged("geo-demo")
    assert sp.load_run("geo-demo").graph.name == "planted"


def test_commands_use_it_and_leave_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in find_run("geo-demo").iterdir())
    asked = ["predict", "geo-demo", "--head", "Germany", "--relation", "borders", "--exclude-self", "--top", "3"]
    answered = CliRunner().invoke(app, asked, catch_exceptions=False).stdout
    assert any(country in answered for country in ("Austria", "Czechia", "Switzerland", "Luxembourg", "Belgium"))
    done = CliRunner().invoke(app, ["evaluate", "geo-demo", "--no-ranking", "-q"], catch_exceptions=False)
    assert done.exit_code == 0
    done = CliRunner().invoke(app, ["calibrate", "geo-demo"], catch_exceptions=False)
    assert "nothing is kept in it" in done.stdout
    assert sorted((path.name, path.stat().st_mtime_ns) for path in find_run("geo-demo").iterdir()) == before
    assert list(tmp_path.iterdir()) == []


def test_a_missing_run_names_those_of_the_package(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the package holds geo-demo"):
        sp.load_run(tmp_path / "none")


def test_weights_in_16_bits(tmp_path: Path, planted_run: sp.Run) -> None:
    planted_run.save(tmp_path / "whole")
    planted_run.save(tmp_path / "half", precision="float16")
    sizes = [next((tmp_path / name).glob("weights.*")).stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    loaded = sp.load_run(tmp_path / "half")
    expected = planted_run.model.entities.detach().half().float().numpy()
    np.testing.assert_array_equal(loaded.model.entities.detach().numpy(), expected)
    with pytest.raises(SettingError, match="float32 or float16, got 'int8'"):
        planted_run.save(tmp_path / "no", precision="int8")
