"""A search as one page: its course, what each setting does, and the command of the best."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from staypositive.files import write_atomic
from staypositive.reports.charts import Point, Series, line_chart
from staypositive.reports.html import Html, figure, number, percent, section, table, tag
from staypositive.reports.report import page
from staypositive.run import train_command
from staypositive.training import MONITORS
from staypositive.tuning.search import Tuned, optuna, trials_of
from staypositive.tuning.space import Range

LISTED = 15
ENOUGH = 8
"""Complete trials from which on importance is estimated."""


def write_study_page(tuned: Tuned, data: str, path: str | os.PathLike[str]) -> Path:
    """Write the page of a search; `data` is the graph as the command names it."""
    trials = trials_of(tuned.study, "COMPLETE")
    tiles = [
        (number(tuned.value), f"best validation {tuned.monitor}"),
        (number(len(trials)), "trials complete"),
        (number(len(trials_of(tuned.study, "PRUNED"))), "pruned"),
    ]
    parts = [_course(tuned, trials), _parameters(tuned, trials), _best(tuned, trials, data)]
    return write_atomic(path, page(f"Search on {data}", f"study {tuned.study.study_name}", tiles, parts))


def write_best(tuned: Tuned, data: str, path: str | os.PathLike[str]) -> Path:
    """Write the best setting as TOML: a space with everything fixed, and where it was found."""
    found = {"graph": data, "monitor": tuned.monitor, "value": tuned.value, "trial": tuned.best_trial.number}
    lines = [f"# {train_command(data, tuned.settings)}"]
    for name, values in (("settings", tuned.best), ("found", found)):
        said = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
        lines += [f"[{name}]", *said, ""]
    return write_atomic(path, "\n".join(lines))


def _course(tuned: Tuned, trials: list[Any]) -> Html:
    """Draw each trial in turn with the best so far, and the validations of each by epoch."""
    best = list(itertools.accumulate((trial.value for trial in trials), max if MONITORS[tuned.monitor] else min))
    dots = [Point(t.number, t.value, 0, f"trial {t.number}: {number(t.value)}") for t in trials]
    line = Series("best", [t.number for t in trials], best, 1)
    course = line_chart([line], "value of each trial", points=dots, width=480, height=190)
    drawings = [figure(f"Validation {tuned.monitor} of each trial", course, "line: best so far")]
    winner = tuned.best_trial.number
    curves = [
        Series(f"trial {t.number}", list(t.intermediate_values), list(t.intermediate_values.values()),
               1 if t.number == winner else 8)
        for t in sorted(trials_of(tuned.study), key=lambda one: bool(one.number == winner))  # the best last, on top
        if len(t.intermediate_values) > 1
    ]  # fmt: skip
    if curves:
        learning = line_chart(curves, "validation by epoch", width=480, label=False)
        drawings.append(figure("By epoch", learning, "the best in colour, pruned ones end early"))
    lead = "A trial is one training; its value is the validation metric of its best epoch."
    return section("Course", lead, tag("div", *drawings, class_="pair"), name="course")


def _parameters(tuned: Tuned, trials: list[Any]) -> Html:
    """Draw values by each setting, the most important setting first."""
    weights, winner = _importance(tuned, trials), tuned.best_trial.number
    drawings = []
    for name in sorted(tuned.space.searched, key=lambda name: -weights.get(name, 0.0)):
        choice = tuned.space.searched[name]
        labels = None if isinstance(choice, Range) else [str(value) for value in choice]
        dots = []
        for trial in trials:
            value = trial.params[name]
            place = value if labels is None else labels.index(str(value))
            said = f"{name} {value}: {number(trial.value)}"
            dots.append(Point(place, trial.value, int(trial.number == winner), said))
        by_ratio = isinstance(choice, Range) and choice.log
        chart = line_chart([], name, points=dots, log_x=by_ratio, labels=labels, height=190)
        drawings.append(figure(name, chart, f"importance {percent(weights[name])}" if name in weights else ""))
    lead = f"Validation {tuned.monitor} by the value of each setting; the best trial in red. "
    lead += "Importance is by functional ANOVA." if weights else f"Importance is estimated from {ENOUGH} trials on."
    return section("Settings", lead, tag("div", *drawings, class_="multiples"), name="settings")


def _importance(tuned: Tuned, trials: list[Any]) -> dict[str, float]:
    """Return each setting's share of the variance of values, where there are enough trials to estimate it."""
    if len(trials) < ENOUGH or len({trial.value for trial in trials}) == 1:
        return {}
    importance = optuna().importance
    return dict(importance.get_param_importances(tuned.study, evaluator=importance.FanovaImportanceEvaluator(seed=0)))


def _best(tuned: Tuned, trials: list[Any], data: str) -> Html:
    ordered = sorted(trials, key=lambda trial: trial.value, reverse=MONITORS[tuned.monitor])
    names = list(tuned.space.searched)
    rows = [[trial.number, trial.value, *(trial.params[name] for name in names)] for trial in ordered[:LISTED]]
    command = tag("pre", tag("code", train_command(data, tuned.settings)))
    return section("Best", "The best trials, and the command of the first.",
                   table(["trial", tuned.monitor, *names], rows), command, name="best")  # fmt: skip
