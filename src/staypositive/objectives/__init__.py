"""Objectives: one file each, from a model and a batch to named loss terms."""

from __future__ import annotations

import dataclasses
from typing import Any

from staypositive.errors import SettingError
from staypositive.objectives.negative_sampling import NegativeSampling
from staypositive.objectives.objective import ENOUGH_FACTS, Batch, Defaults, LogisticForm, Objective
from staypositive.objectives.one_vs_all import OneVsAll
from staypositive.objectives.second_moment import SecondMoment
from staypositive.objectives.statistics import Statistic, gram_is_less_work
from staypositive.objectives.stay_positive import StayPositive

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective for objective in (StayPositive, SecondMoment, NegativeSampling, OneVsAll)
}
"""Every objective by its name."""


def objective_options(name: str) -> dict[str, dataclasses.Field[Any]]:
    """Return the options of an objective by name, each with default, type and what `option` declares."""
    if name not in OBJECTIVES:
        raise SettingError(f"expected an objective among {', '.join(OBJECTIVES)}, got {name!r}")
    return {field.name: field for field in dataclasses.fields(OBJECTIVES[name])}  # type: ignore[arg-type]


def build_objective(name: str, **options: Any) -> Objective:
    """Build an objective by name; an option that it does not have, or a value that it cannot take, is an error.

    >>> build_objective("stay-positive", scope="all").touches_all_rows
    True
    """
    known = objective_options(name)
    for option in options.keys() - known.keys():
        raise SettingError(f"{name} has no option {option!r}; it has {', '.join(known)}")
    return OBJECTIVES[name](**options)


__all__ = [
    "ENOUGH_FACTS", "OBJECTIVES", "Batch", "Defaults", "LogisticForm", "NegativeSampling", "Objective", "OneVsAll",
    "SecondMoment", "Statistic", "StayPositive", "build_objective", "gram_is_less_work", "objective_options",
]  # fmt: skip
