"""A search as one page: how the best came to be, what each setting does, and the command of the best."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.reports.charts import Point, Series, dot_chart, line_chart
from staypositive.reports.html import Html, figure, join, number, percent, section, table, tag
from staypositive.reports.report import page
from staypositive.run import train_command
from staypositive.training import MONITORS
from staypositive.tuning.search import Tuned, optuna
from staypositive.tuning.space import Range
from staypositive.version import __version__

LISTED = 15
ENOUGH = 8
"""Complete trials from which on importance is estimated."""


def write_study_page(tuned: Tuned, data: str, path: str | os.PathLike[str]) -> Path:
    """Write the page of a search; `data` is the graph as the command names it."""
    trials = _complete(tuned)
    if not trials:
        raise InputError("no trial of this study is complete, so there is nothing to draw")
    states = optuna().trial.TrialState
    pruned = len(tuned.study.get_trials(deepcopy=False, states=(states.PRUNED,)))
    tiles = [
        (number(tuned.value), f"best validation {tuned.monitor}"),
        (number(len(trials)), "trials complete"),
        (number(pruned), "pruned"),
    ]
    header = join([
        tag("h1", f"Search on {data}"),
        tag("p", f"study {tuned.study.study_name}", class_="subtitle"),
        tag("div", *(tag("div", tag("b", b), tag("span", s), class_="tile") for b, s in tiles), class_="tiles"),
    ])  # fmt: skip
    parts = [_course(tuned), _parameters(tuned), _best(tuned, data)]
    return write_atomic(path, page(f"Search on {data}", header, join(parts), f"Made by staypositive {__version__}."))


def write_best(tuned: Tuned, data: str, path: str | os.PathLike[str]) -> Path:
    """Write the best setting as TOML: a space with everything fixed, and where it was found."""
    settings = {**tuned.space.fixed, **tuned.study.best_params}
    found = {"graph": data, "monitor": tuned.monitor, "value": tuned.value, "trial": tuned.study.best_trial.number}
    lines = [f"# {train_command(data, tuned.settings)}", "[settings]", *_toml(settings), "", "[found]", *_toml(found)]
    return write_atomic(path, "\n".join(lines) + "\n")


def _toml(values: dict[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _complete(tuned: Tuned) -> list[Any]:
    states = optuna().trial.TrialState
    found: list[Any] = tuned.study.get_trials(deepcopy=False, states=(states.COMPLETE,))
    return found


def _course(tuned: Tuned) -> Html:
    """Each trial in turn, the best so far, and how each learnt."""
    trials, better = _complete(tuned), max if MONITORS[tuned.monitor] else min
    best, so_far = [], trials[0].value
    for trial in trials:
        so_far = better(so_far, trial.value)
        best.append(so_far)
    dots = [Point(t.number, t.value, 0, f"trial {t.number}: {number(t.value)}") for t in trials]
    course = dot_chart(
        dots, "value of each trial", line=Series("best", [t.number for t in trials], best, 1), width=480
    )
    curves = [
        Series(f"trial {t.number}", list(t.intermediate_values), list(t.intermediate_values.values()),
               1 if t.number == tuned.study.best_trial.number else 8)
        for t in tuned.study.get_trials(deepcopy=False)
        if len(t.intermediate_values) > 1
    ]  # fmt: skip
    curves.sort(key=lambda curve: curve.colour != 1)  # the best is drawn last, on top
    drawings = [figure(f"Validation {tuned.monitor} of each trial", course, "line: best so far")]
    if curves:
        learning = line_chart(curves[::-1], "validation by epoch", width=480, label=False)
        drawings.append(figure("By epoch", learning, "the best in colour, pruned ones end early"))
    lead = "A trial is one training; its value is the validation metric of its best epoch."
    return section("Course", lead, tag("div", *drawings, class_="pair"), name="course")


def _parameters(tuned: Tuned) -> Html:
    """What each setting does, the most important first."""
    trials, weights = _complete(tuned), _importance(tuned)
    order = sorted(tuned.space.searched, key=lambda name: -weights.get(name, 0.0))
    drawings = []
    for name in order:
        choice = tuned.space.searched[name]
        dots, labels, log = [], None, False
        if isinstance(choice, Range):
            log = choice.log
        else:
            labels = [str(value) for value in choice]
        for trial in trials:
            at = trial.params[name] if labels is None else labels.index(str(trial.params[name]))
            is_best = trial.number == tuned.study.best_trial.number
            dots.append(
                Point(at, trial.value, 1 if is_best else 0, f"{name} {trial.params[name]}: {number(trial.value)}")
            )
        share = f"importance {percent(weights[name])}" if name in weights else ""
        drawings.append(figure(name, dot_chart(dots, name, log_x=log, labels=labels), share))
    lead = f"Validation {tuned.monitor} by the value of each setting; the best trial in red. "
    lead += "Importance is by functional ANOVA." if weights else f"Importance is estimated from {ENOUGH} trials on."
    return section("Settings", lead, tag("div", *drawings, class_="multiples"), name="settings")


def _importance(tuned: Tuned) -> dict[str, float]:
    """Return each setting's share of the variance of values, where enough is known to say."""
    trials = _complete(tuned)
    if len(trials) < ENOUGH or len({trial.value for trial in trials}) == 1:
        return {}
    library = optuna()
    evaluator = library.importance.FanovaImportanceEvaluator(seed=0)
    return dict(library.importance.get_param_importances(tuned.study, evaluator=evaluator))


def _best(tuned: Tuned, data: str) -> Html:
    up = MONITORS[tuned.monitor]
    trials = sorted(_complete(tuned), key=lambda trial: -trial.value if up else trial.value)[:LISTED]
    names = list(tuned.space.searched)
    rows = [[trial.number, trial.value, *(trial.params[name] for name in names)] for trial in trials]
    command = tag("pre", tag("code", train_command(data, tuned.settings)))
    return section("Best", "The best trials, and the command of the first.",
                   table(["trial", tuned.monitor, *names], rows), command, name="best")  # fmt: skip
