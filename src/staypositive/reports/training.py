"""How a run was made: its training by epoch, its settings and origin, and the commands that make it again."""

from __future__ import annotations

import statistics
from typing import Any

from staypositive.models import ENSEMBLE
from staypositive.reports.charts import Series, line_chart
from staypositive.reports.html import Content, Html, figure, join, number, tag
from staypositive.reports.report_data import ReportData
from staypositive.training import MONITORS
from staypositive.typed import fits

_NAMES = {"mrr": "MRR", "nll": "NLL"}


def training_section(data: ReportData) -> Content:
    """Draw each validation metric, each term of the loss and the mean of all scores by epoch."""
    run = data.run
    if not run.history:
        said = "its members were trained apart" if run.settings.model == ENSEMBLE else "it was not trained here"
        return [f"This run has no history: {said}."]
    epochs = [record.epoch for record in run.history]
    mark = (float(run.best_epoch), "best") if 1 <= run.best_epoch <= len(epochs) else None
    drawings = []
    checked = [record for record in run.history if record.validation]
    for metric in checked[0].validation if checked else ():
        values = [record.validation.get(metric, float("nan")) for record in checked]
        best = (max if MONITORS.get(metric, True) else min)(values)
        line = Series(_NAMES.get(metric, metric), [r.epoch for r in checked], values, 1)
        drawn = line_chart([line], f"validation {metric} by epoch", mark=mark, dots=True)
        drawings.append(figure(f"Validation {line.name}", drawn, f"best {number(best)}"))
    for place, term in enumerate(run.history[0].terms):
        line = Series(term, epochs, [record.terms.get(term, float("nan")) for record in run.history])
        drawn = line_chart([line], f"loss term {term} by epoch", mark=mark, zero=place == 0)
        drawings.append(figure(f"Loss: {term}", drawn, f"{number(line.ys[0])} → {number(line.ys[-1])}"))
    line = Series("mean score", epochs, [record.mean_score for record in run.history], 2)
    drawn = line_chart([line], "mean of all scores by epoch", mark=mark, zero=True)
    drawings.append(figure("Mean of all |E|²|R| scores", drawn, f"now {number(line.ys[-1])}"))
    usual = statistics.median(record.seconds for record in run.history)
    lead = (
        f"{len(epochs):,} epochs of {number(usual)} s each (median, validation excluded). Loss terms are means per "
        f"fact. The weights kept are those of epoch {run.best_epoch}."
    )
    return [lead, tag("div", join(drawings), class_="multiples")]


def provenance_section(data: ReportData) -> Content:
    """Return settings and origins in two columns, and the command."""
    run = data.run
    values = run.settings.as_dict()
    objective = dict(values.pop("objective"))
    settings = {"objective": objective.pop("name"), **objective}
    settings |= {name: value for name, value in values.items() if value is not None}
    origin = {key: value for key, value in run.provenance.items() if key not in ("sources", "members", "validation")}
    found: Any = run.provenance.get("validation")
    if fits(found, dict[str, Any]) and fits(found.get("alone"), tuple[float, ...]):
        members = ", ".join(f"{value:.4f}" for value in found["alone"])
        origin["validation"] = f"ensemble {found.get('joined')!s:.6}; members {members}"
    files = [f"{source.name}, {source.rows:,} rows, SHA-256 {source.sha256[:16]}…" for source in run.graph.sources]
    read = [tag("p", line, class_="note") for line in (*files, *(f"note: {note}" for note in run.graph.notes))]
    left = tag("div", tag("h3", "Settings"), _list(settings))
    right = tag("div", tag("h3", "Origin"), _list(origin), tag("h3", "Files read"), *read)
    again = [tag("pre", tag("code", command)) for command in run.commands()]
    lead = "What made this run, and the commands that make it again."
    return [lead, tag("div", left, right, class_="pair"), *again]


def _list(values: dict[str, Any]) -> Html:
    words = {True: "yes", False: "no"}
    lines = [(key, words[value] if isinstance(value, bool) else value) for key, value in values.items()]
    return tag("dl", *(part for key, value in lines for part in (tag("dt", key), tag("dd", value))))
