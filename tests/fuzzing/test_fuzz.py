"""A few hundred cases of each target in every run of the tests; `make fuzz` runs a hundred thousand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzzing.cases import CrashError, Target, run_cases
from fuzzing.targets import TARGETS, make_target

NEEDS = {"service": "fastapi"}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_goes_wrong_but_by_an_error_that_says_so(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    target = make_target(name, tmp_path)
    try:
        outcomes = run_cases(name, target, cases=300, seed=1)
    finally:
        target.close()
    assert outcomes.total() == 300
    assert len(outcomes) > 1, "every case went the same way, so that little was tried"


class Broken(Target):
    """A target of which every fourth case is a crash."""

    def __init__(self, folder: Path) -> None: ...

    def case(self, draw: random.Random) -> str:
        return f"{1 // draw.randrange(4) >= 0}"


def test_a_crash_is_told_with_the_command_that_has_it_again(tmp_path: Path) -> None:
    with pytest.raises(CrashError, match=r"scripts/fuzz\.py readers --seed 5 --start \d+ --cases 1") as found:
        run_cases("readers", Broken(tmp_path), cases=100, seed=5)
    assert "ZeroDivisionError" in str(found.value)
    number = int(str(found.value).split("--start ")[1].split()[0])
    with pytest.raises(CrashError):
        run_cases("readers", Broken(tmp_path), cases=1, seed=5, start=number)
    if number:
        run_cases("readers", Broken(tmp_path), cases=number, seed=5)
