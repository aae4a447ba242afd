"""How training went: each term of the loss, the mean of all scores and the validation metric, by epoch."""

from __future__ import annotations

import statistics

from staypositive.models import ENSEMBLE
from staypositive.reports.charts import Series, line_chart
from staypositive.reports.html import Html, figure, join, number, section, tag
from staypositive.reports.report_data import ReportData
from staypositive.training import MONITORS

_NAMES = {"mrr": "MRR", "nll": "NLL"}


def training_section(data: ReportData) -> Html:
    """Return small multiples of the history."""
    run = data.run
    if not run.history:
        said = "its members were trained apart" if run.settings.model == ENSEMBLE else "it was not trained here"
        return section("Training", f"This run has no history: {said}.", name="training")
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
        values = [record.terms.get(term, float("nan")) for record in run.history]
        drawn = line_chart(
            [Series(term, epochs, values, 0)], f"loss term {term} by epoch", mark=mark, zero=place == 0
        )
        drawings.append(figure(f"Loss: {term}", drawn, f"{number(values[0])} → {number(values[-1])}"))
    scores = [record.mean_score for record in run.history]
    drawn = line_chart([Series("mean score", epochs, scores, 2)], "mean of all scores by epoch", mark=mark, zero=True)
    drawings.append(figure("Mean of all |E|²|R| scores", drawn, f"now {number(scores[-1])}"))
    usual = statistics.median(record.seconds for record in run.history)
    lead = (
        f"{len(epochs):,} epochs of {number(usual)} s each (median, validation excluded). Loss terms are means a "
        f"fact. The weights kept are those of epoch {run.best_epoch}."
    )
    return section("Training", lead, tag("div", join(drawings), class_="multiples"), name="training")
