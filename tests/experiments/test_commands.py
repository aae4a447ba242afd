"""The entry point: every measurement is a command, and says what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from experiments import __main__ as entry
from experiments.data import read_data
from experiments.store import read_results

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(entry.app).commands  # type: ignore[attr-defined]


def test_help_names_every_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "--help"], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    for name, command in COMMANDS.items():
        assert name in done.stdout
        assert command.help or command.short_help


def test_the_package_has_none_of_them() -> None:
    from staypositive.cli import app

    assert not {"bench", "reproduce", "results"} & set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert not [path for path in (ROOT / "src").rglob("*.py") if "import experiments" in path.read_text("utf-8")]
    assert not [path for path in (ROOT / "src").rglob("*.py") if "from experiments" in path.read_text("utf-8")]


def test_an_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["experiments", "reproduce", "table9"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: expected one of table2")


@pytest.mark.parametrize("name", ["als", "busy", "kills", "lighter-state", "pykeen-training", "sharded"])
def test_what_is_trained_is_data(name: str) -> None:
    assert name in COMMANDS
    assert len(read_data("settings")[name]) >= 2


def test_a_measurement_adds_its_figures(tmp_path: Path) -> None:
    options = ["--dim", "4", "--sweeps", "1", "--epochs", "1", "--seeds", "1", "--results", str(tmp_path)]
    done = CliRunner().invoke(entry.app, ["als", "geo", *options])
    assert done.exit_code == 0, done.output
    rows = read_results(tmp_path)
    assert {row["metric"] for row in rows} == {"mrr", "cpu_seconds"}
    assert len({row["setting"] for row in rows}) == len(read_data("settings")["als"])
    assert {row["experiment"] for row in rows} == {"als"}
