"""Spaces: from a file, by objective, the paper's; what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import staypositive as sp
from staypositive.objectives import OBJECTIVES
from staypositive.tuning import Range, Space, default_space, paper_space, read_space

TEXT = """
[settings]
model = "distmult"
epochs = 3
dim = 9

[space]
dim = [4, 8]
learning_rate = { low = 0.1, high = 1.0, log = true }
"""


def test_a_file_is_read_and_fixed_settings_leave_the_search(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TEXT, "utf-8")
    space = read_space(tmp_path / "s.toml").checked()
    assert space.searched == {"dim": (4, 8), "learning_rate": Range(0.1, 1.0, True)}
    assert space.fixed == {"model": "distmult", "epochs": 3}  # what is searched is not fixed
    assert space.settings({"dim": 4, "learning_rate": 0.5}).dim == 4
    less = space.with_fixed(learning_rate=0.2)
    assert less.grid() == [{"dim": 4}, {"dim": 8}]
    assert Space.from_dict(space.as_dict()) == space


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_has_a_sensible_space(objective: str) -> None:
    space = default_space(objective).checked()
    assert "learning_rate" in space.searched
    assert space.fixed["objective"] == objective


def test_the_papers_grid() -> None:
    assert len(paper_space().grid()) == 128
    assert len(paper_space("negative-sampling", 112_581).grid()) == 96
    assert paper_space("negative-sampling", 112_581).fixed["batch_size"] == 1126
    with pytest.raises(sp.SettingError, match="not for 1vsall"):
        paper_space("1vsall")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[space]\ndim = 3", "dim is searched over a list"),
        ("[space]\ndim = []", "dim is searched over a list"),
        ("[spaces]\ndim = [3]", r"not \[spaces\]"),
        ("[space]\ndim = { low = 4, high = 4 }", "from a low to a higher number"),
        ("[space]\nn3 = { low = 0, high = 4, log = true }", "above 0 if log"),
        ("[space", "s.toml"),
    ],
)
def test_what_a_file_cannot_say(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.toml").write_text(text, "utf-8")
    with pytest.raises(sp.DataError, match=said):
        read_space(tmp_path / "s.toml")


def test_a_space_is_checked_before_anything_is_trained() -> None:
    with pytest.raises(sp.SettingError, match="Did you mean 'epochs'"):
        Space({"epoch": (1, 2)}).checked()
    with pytest.raises(sp.SettingError, match="penalty_weight"):
        Space({"penalty_weight": (0.1,)}, {"objective": "negative-sampling"}).checked()
    with pytest.raises(sp.SettingError, match="slices applies to the models ntn and tucker"):
        Space({"slices": (2, 4)}, {"model": "complex"}).checked()
    some = Space({"model": ("complex", "ntn"), "slices": (2, 4), "n3": Range(0, 1)}, {"objective": "1vsall"})
    assert some.checked().settings({"model": "complex", "slices": 2, "n3": 0.5}).model == "complex"
    assert some.settings({"model": "ntn", "slices": 2, "n3": 0.5}).as_dict()["slices"] == 2
    with pytest.raises(sp.SettingError, match="nothing to search"):
        Space({"dim": (1, 2)}).with_fixed(dim=3).checked()
    with pytest.raises(sp.SettingError, match="dim has a range"):
        Space({"dim": Range(2, 5)}).grid()
    with pytest.raises(sp.SettingError, match="expected an objective"):
        default_space("magic")
