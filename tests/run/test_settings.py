"""What settings refuse: values out of range, arguments of another kind, and options that have no effect."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staypositive as sp
from staypositive.errors import InputError, SettingError
from staypositive.objectives import OBJECTIVES, StayPositive
from staypositive.options import LARGEST_FLOAT, LARGEST_INT, described
from staypositive.run import fitting
from staypositive.run.settings import SETTINGS, unused
from staypositive.typed import annotations_of, fits

OWNERS: dict[str, type] = {"settings": sp.Settings, **OBJECTIVES}
NUMBERS = [
    (owner, field.name)
    for owner, kind in OWNERS.items()
    for field in dataclasses.fields(kind)
    if fits(1, annotations_of(kind)[field.name]) and not field.metadata["choices"]
]
"""Every option that is a number, with the class that it belongs to."""


@pytest.mark.parametrize(("owner", "name"), NUMBERS, ids=map(" ".join, NUMBERS))
def test_every_number_has_a_range(owner: str, name: str) -> None:
    kind = OWNERS[owner]
    limits = {field.name: field.metadata for field in dataclasses.fields(kind)}[name]["limits"]
    is_float = fits(0.5, annotations_of(kind)[name])
    largest = limits.get("most", LARGEST_FLOAT if is_float else LARGEST_INT)
    wrong = [2 * largest, -3 * largest, 10**30 if not is_float else 1e300]
    wrong += [limits[end] for end in ("above", "below") if end in limits]
    wrong += [limits["least"] - 1] if "least" in limits else []
    wrong += [math.nan, math.inf] if is_float else []
    for value in wrong:
        with pytest.raises(SettingError, match=f"^{name} must be .*, got "):
            kind(**{name: value})
    if "below" not in limits:
        assert getattr(kind(**{name: largest}), name) == largest


def test_a_number_too_long_to_print_is_refused() -> None:
    with pytest.raises(SettingError, match="dim must be at most 2147483647, got a whole number of some 5000 digits"):
        sp.make_settings(dim=10**5000)


def test_numbers_of_other_libraries_can_be_saved(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(planted, model="distmult", dim=np.int64(4), epochs=1, learning_rate=Fraction(1, 2),
                 objective="negative-sampling", negatives=np.int32(2))  # fmt: skip
    assert sp.load_run(run.save(tmp_path / "run")).settings == run.settings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"graph": 5}, "neither a file, nor a folder, nor a named dataset"),
        ({"settings": 5}, "settings must be Settings, got 5"),
        ({"callbacks": 3}, "callbacks must be a sequence of Callback, got 3"),
        ({"callbacks": ["x"]}, "callbacks must be a sequence of Callback, got ['x']"),
        ({"checkpoint": 5}, "checkpoint must be Checkpoint or text or a path, got 5"),
        ({"start_from": "runs/geo"}, "start_from must be Run, got 'runs/geo'; load_run reads one"),
        ({"should_stop": True}, "should_stop must be a function, got True"),
        ({"progress": 1}, "progress must be true or false, got 1"),
        ({"preset": None}, "preset must be text, got None"),
        ({"device": 3.5}, "expected a device such as auto, cpu, cuda or cuda:1, got 3.5"),
    ],
)
def test_arguments_of_another_kind(planted: sp.KnowledgeGraph, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        sp.fit(**{"graph": planted, **arguments})


def test_fit_reads_what_load_graph_takes(tmp_path: Path) -> None:
    triples = [(f"e{number}", "next", f"e{number + 1}") for number in range(20)]
    path = tmp_path / "my.tsv"
    path.write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    chosen = {"model": "distmult", "dim": 2, "epochs": 1}
    graphs = [sp.fit(source, **chosen).graph for source in (sp.load_graph(path), path, str(path), triples)]
    assert {graph.fingerprint for graph in graphs[:3]} == {graphs[0].fingerprint}
    assert [len(graph.train) for graph in graphs] == [len(graphs[0].train)] * 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "complex", "slices": 3}, "slices applies to the models ntn and tucker; here model is complex"),
        ({"bound": "identity", "score_bound": 5.0}, "score_bound applies to the tanh bound"),
        ({"objective": "1vsall", "score_bound": 5.0}, "here bound is identity"),
        (
            {"optimiser": "adam", "accumulator": 0.1},
            "accumulator applies to the optimisers adagrad and adagrad-rowwise",
        ),
        ({"objective": "second-moment", "prior_score": 0.0}, "prior_score applies to objectives that read scores as"),
        ({"objective": "1vsall", "closed_world": "logit"}, "closed_world applies to objectives that read scores as"),
        (
            {"penalty_weight": 0, "scope": "all"},
            "scope applies to a penalty_weight above 0; here penalty_weight is 0",
        ),
        ({"objective": "second-moment", "head_weight": 0.5}, "head_weight applies to reciprocal=False"),
        (
            {"objective": "second-moment", "n3": 0.0, "n3_power": 0.5},
            "n3_power applies to an n3 above 0; here n3 is 0.0",
        ),
        (
            {"objective": "second-moment", "relation_weight": 0.0, "relation_unobserved_weight": 0.1},
            "relation_unobserved_weight applies to a relation_weight above 0",
        ),
    ],
)
def test_an_option_without_effect_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=re.escape(said)):
        sp.make_settings(**changes)


def test_none_gives_nothing_and_saved_settings_load_all_the_same() -> None:
    assert sp.make_settings(model="complex", slices=None) == sp.Settings(model="complex")
    stated = sp.Settings(model="complex", optimiser="adam", accumulator=0.5).as_dict() | {"slices": 3}
    settings = sp.Settings.from_dict(stated)  # older versions kept slices for every model
    assert settings.as_dict() | {"slices": 3} == stated
    assert list(unused(settings, ["slices", *SETTINGS])) == ["slices", "accumulator"]


def test_memory_that_slices_or_negatives_take_is_said(planted: sp.KnowledgeGraph) -> None:
    with pytest.raises(SettingError, match="try a smaller dim or fewer slices than 2000000000"):
        sp.fit(planted, model="ntn", slices=2_000_000_000, dim=2)
    many = sp.make_settings(objective="negative-sampling", negatives=50)
    assert "or fewer negatives than 50" in fitting._advice(many)


def test_help_states_range_and_where_an_option_applies() -> None:
    fields = {field.name: field for field in dataclasses.fields(StayPositive)}
    assert described(fields["power"]) == "1 for |sum|, 2 for its square; applies to a penalty_weight above 0"
    assert described(SETTINGS["prior"]).startswith(
        "the prior as a probability: ψ = logit(prior); above 0 and below 1;"
    )
    assert described(SETTINGS["optimiser"]) == "the optimiser"
