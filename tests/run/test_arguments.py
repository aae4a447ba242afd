"""Arguments of the wrong kind: one line each, never a traceback from within."""

from __future__ import annotations

from typing import Any

import pytest

import staypositive as sp
from staypositive.errors import InputError
from staypositive.inference import discover

ASKED = {"head": "p0", "relation": "ally"}
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("predict", {"head": 5}, "head must be text, got 5"),
    ("predict", {**ASKED, "top": 1.5}, "top must be a whole number, got 1.5"),
    ("predict", {**ASKED, "top": True}, "top must be a whole number, got True"),
    ("predict", {**ASKED, "top": 0}, "at least 1, got 0"),
    ("predict", {**ASKED, "completeness": "x"}, "completeness must be a number, got 'x'"),
    ("predict", {**ASKED, "candidates": 5}, "candidates must be text or a list, got 5"),
    ("predict", {**ASKED, "candidates": [5]}, "candidates are a list of labels"),
    ("predict", {**ASKED, "exclude_known": "yes"}, "exclude_known must be true or false"),
    ("predict", {"relation": "ally", "tail": ["p1"]}, "tail must be text"),
    ("prediction_set", {**ASKED, "coverage": "x"}, "coverage must be a number, got 'x'"),
    ("prediction_set", {**ASKED, "coverage": None}, "coverage must be a number, got None"),
    ("prediction_set", {**ASKED, "coverage": float("nan")}, "between 0 and 1, got nan"),
    ("measure_prediction_sets", {"coverage": 2}, "between 0 and 1, got 2"),
    ("similar", {"entity": 5}, "entity must be text"),
    ("similar", {"entity": "p0", "top": "a"}, "top must be a whole number"),
    ("explain", {"head": "p0", "relation": None, "tail": "p1"}, "relation must be text, got None"),
    ("evaluate", {"split": 5}, "split must be text"),
    ("evaluate", {"sampled": "x"}, "sampled must be a whole number"),
    ("evaluate", {"memory": "x"}, "memory must be a whole number"),
    ("calibrate", {"method": 5}, "method must be text"),
    ("answer", {"queries": [5]}, "queries must be a sequence of Query"),
    ("predict_file", {"path": 5}, "path must be text or a path"),
    ("save", {"folder": 5}, "folder must be text or a path"),
    ("with_entities", {"facts": 5}, "facts must be"),
    ("with_entities", {"facts": [("a", "ally", "p0")], "ridge": "x"}, "ridge must be a number"),
]


@pytest.mark.parametrize(("verb", "arguments", "said"), CALLS, ids=[f"{verb}-{said[:24]}" for verb, _, said in CALLS])
def test_one_line_says_what_was_expected(
    planted_run: sp.Run, verb: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        getattr(planted_run, verb)(**arguments)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_functions_beside_a_run_say_the_same(planted_run: sp.Run) -> None:
    with pytest.raises(InputError, match="folder must be text or a path"):
        sp.load_run(5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="min_probability must be a number"):
        discover(planted_run.predictor, min_probability="x")  # type: ignore[arg-type]
