"""The tests' own surroundings: which warnings are errors, and what of the machine they do not see."""

from __future__ import annotations

import os
import warnings
from types import ModuleType

import pytest
import torch
from hypothesis import settings

from conftest import kept_threads
from staypositive.cli.console import Console


def module(name: str) -> ModuleType:
    """A module whose code does what is deprecated."""
    made = ModuleType(name)
    exec("import warnings\ndef old(): warnings.warn('is old', DeprecationWarning)", made.__dict__)
    return made


def test_a_warning_is_an_error_where_the_package_itself_causes_it() -> None:
    with pytest.raises(DeprecationWarning, match="is old"):
        module("staypositive.run.fitting").old()
    with warnings.catch_warnings(record=True) as heard:
        module("library.inside").old()
    assert len(heard) == 1


def test_what_commands_print_does_not_depend_on_the_terminal() -> None:
    assert os.environ["COLUMNS"] == "160"
    assert Console().out.width == 160
    assert not {"NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "WORLD_SIZE"} & set(os.environ)


def test_drawn_cases_are_the_same_everywhere() -> None:
    assert settings.default.derandomize
    assert settings.default.deadline is None


def test_the_number_of_threads_that_a_test_sets_is_not_the_next_ones() -> None:
    before = torch.get_num_threads()
    with kept_threads():
        torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before
