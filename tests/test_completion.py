"""Completion as a shell asks for it, and the outline that it comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import staypositive as sp
from staypositive import completion
from staypositive.__main__ import main
from staypositive.cli import app
from staypositive.run.folder import MANIFEST, find_run

Ask = Callable[[str], list[str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    """Ask as bash does: the words so far, the last of them not finished."""
    monkeypatch.chdir(tmp_path)

    def asked(line: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        monkeypatch.setenv(completion.VARIABLE, "complete_bash")
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        return capsys.readouterr().out.split()

    return asked


def test_commands_flags_and_choices(ask: Ask) -> None:
    assert {"train", "predict", "serve", "datasets"} <= set(ask("staypositive "))
    assert ask("staypositive disc") == ["discover"]
    assert ask("staypositive datasets sh") == ["show"]
    assert "--learning-rate" in ask("staypositive train geo --l")
    assert set(ask("staypositive train geo --model ")) == set(sp.MODELS)
    assert set(ask("staypositive train geo --objective ")) == set(sp.OBJECTIVES)
    assert set(ask("staypositive calibrate geo-demo --method ")) == {"auto", "none", *sp.CALIBRATORS}
    assert "--no-reciprocal" in ask("staypositive train geo --no-")


def test_graphs_are_datasets_folders_and_files(ask: Ask) -> None:
    Path("mine.tsv").touch()
    assert ask("staypositive train ") == [*(dataset.name for dataset in sp.CATALOGUE.values()), "mine.tsv"]
    assert ask("staypositive datasets show W") == ["WN18RR", "WN11", "WN18AM"]
    assert ask("staypositive tune mi") == ask("staypositive train mi") == ["mine.tsv"]


def test_runs_are_those_of_the_package_and_folders_that_hold_one(ask: Ask) -> None:
    for folder in ("runs/a", "runs/b", "c", "runs/none"):
        Path(folder).mkdir(parents=True)
    for folder in ("runs/a", "runs/b", "c"):
        Path(folder, "run.json").touch()
    assert ask("staypositive predict ") == ["geo-demo", "c", "runs/a", "runs/b"]
    assert ask("staypositive serve runs/b") == ["runs/b"]


def test_relations_are_the_runs_own(ask: Ask, planted_run: sp.Run) -> None:
    assert "has_currency" in ask("staypositive predict geo-demo --relation ")
    planted_run.save("mine")
    assert set(ask("staypositive explain mine --relation ")) == {"ally", "rival"}
    assert ask("staypositive predict nowhere --relation ") == []


def test_torch_is_not_loaded(tmp_path: Path) -> None:
    """After the first question, which makes the outline, none waits for torch."""
    said = {"COMP_WORDS": "staypositive train geo --model ", "COMP_CWORD": "4", completion.VARIABLE: "complete_bash"}
    code = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, 'numpy' in sys.modules));"
        "from staypositive.__main__ import main; main()"
    )
    environment = {**os.environ, **said, "STAYPOSITIVE_CACHE": str(tmp_path)}
    for loaded in ("True True", "False False"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, encoding="utf-8", check=True
        )
        assert done.stdout.splitlines()[-1] == loaded
        assert "distmult" in done.stdout


def test_another_state_of_the_package_takes_the_outlines_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STAYPOSITIVE_CACHE", str(tmp_path))
    for state in ("before", "after"):
        monkeypatch.setattr(completion, "_state", lambda state=state: state)
        completion.kept_outline()
        assert [path.name for path in tmp_path.iterdir()] == [f"completion-{state}.json"]
    (tmp_path / "completion-after.json").write_text("half", "utf-8")
    assert completion.kept_outline()["names"]["runs"][0][0] == "geo-demo"
    assert json.loads((tmp_path / "completion-after.json").read_text("utf-8"))["commands"]


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STAYPOSITIVE_CACHE", str(tmp_path / "file"))
    assert completion.kept_outline()["commands"]


def test_places_are_those_of_the_rooms() -> None:
    assert find_run("geo-demo") == completion._PACKAGED / "geo-demo"
    assert completion._RUN == MANIFEST


def names(command: object, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], set[str]]:
    """Return every command of a command line with all its flags."""
    found = {path: {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}}  # type: ignore[attr-defined]
    for name, below in getattr(command, "commands", {}).items():
        found |= names(below, (*path, name))
    return found


def test_the_twin_has_the_words_of_the_command_line() -> None:
    twin = completion.twin(completion.kept_outline())
    assert names(typer.main.get_command(twin)) == names(typer.main.get_command(app))


def test_the_list_of_commands_is_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["staypositive", "--help"])
    with pytest.raises(SystemExit):
        main()
    quick = capsys.readouterr().out
    with pytest.raises(SystemExit):
        app(prog_name="staypositive")
    assert quick == capsys.readouterr().out
    assert "predict" in quick


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = CliRunner().invoke(app, ["--show-completion", shell], prog_name="staypositive")
    assert f"{completion.VARIABLE}=complete_{shell}" in done.output
