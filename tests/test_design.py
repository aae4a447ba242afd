"""The walks in `docs/design.md`, followed call by call."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

import staypositive
from conftest import kept_logging
from staypositive.cli import app

PACKAGE = Path(staypositive.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "design.md"
TRAIN = ("train", "geo", "--model", "complex", "--objective", "second-moment", "--dim", "4", "--epochs", "1",
         "--device", "cpu", "--calibrate", "none", "--no-evaluate", "--quiet", "--out")  # fmt: skip


def walk(name: str) -> list[tuple[str, str]]:
    (text,) = re.findall(rf"<!-- walk: {name} -->\n(.*?)<!-- end of walk -->", PAGE.read_text("utf-8"), re.DOTALL)
    return [(path, function) for path, function in re.findall(r"^\d+\. `(\S+)` `(\S+)`$", text, re.MULTILINE)]


def first_calls(*command: str) -> list[tuple[str, str]]:
    """Run a command; return the files and names of the package's functions, in the order of their first calls."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            path = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            seen.setdefault((path, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        done = CliRunner().invoke(app, command)
    finally:
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return list(seen)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    folder = str(tmp_path_factory.mktemp("runs") / "geo")
    question = ("predict", folder, "--head", "France", "--relation", "borders", "--quiet")
    with kept_logging():
        return {"train": first_calls(*TRAIN, folder), "predict": first_calls(*question)}


@pytest.mark.parametrize(("name", "most"), [("train", 30), ("predict", 12)])
def test_a_walk_is_as_the_page_says(calls: dict[str, list[tuple[str, str]]], name: str, most: int) -> None:
    hops = walk(name)
    assert 0 < len(hops) <= most
    places = [calls[name].index((path, function.rsplit(".", 1)[-1])) for path, function in hops]
    assert places == sorted(places)
