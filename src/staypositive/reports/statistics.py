"""The census: where each relation's |E|² scores lie, exactly, and how many new facts to expect."""

from __future__ import annotations

import torch

from staypositive.models import RowMoments, score_moments
from staypositive.reports.charts import Interval, bar, interval_chart
from staypositive.reports.html import Html, Number, details, figure, number, percent, section, table, tag
from staypositive.reports.report_data import ReportData

SHOWN = 24


def statistics_section(data: ReportData) -> Html:
    """Return means with deviations, and the table of what to expect."""
    order = sorted(range(len(data.graph.relations)), key=lambda r: -data.expected[r].facts)
    spans = _spans(data)
    drawn = interval_chart([spans[relation] for relation in order[:SHOWN]], "mean and deviation of all scores")
    n = len(data.graph.entities)
    assumed = "the share of facts among those pairs" if data.prior is None else f"{data.prior:g}, as asked"
    lead = (
        f"Mean and deviation of all {n:,}² scores of each relation, in closed form. New facts to expect are the sum "
        "of the probabilities of all pairs of a relation's heads and tails that no split states; the prior is "
        f"{assumed}."
    )
    rows = _rows(data, order)
    header = ["relation", "facts", "pairs", "prior", "new facts to expect", "", "± s.e."]
    parts = [table(header, rows[:SHOWN])]
    if rows[SHOWN:]:
        parts.append(details(f"{len(rows) - SHOWN} more", table(header, rows[SHOWN:])))
    side = tag("div", figure("Scores: mean ± deviation", drawn), tag("div", *parts), class_="side wide")
    return section("Score statistics", lead, side, name="statistics")


def _spans(data: ReportData) -> list[Interval]:
    scorer = data.predictor.scorer
    spans = []
    with torch.no_grad():
        moments = RowMoments.of(scorer.entity_rows)
        for relation, label in enumerate(data.graph.relations):
            found = score_moments(*scorer.forms(relation), moments, moments)
            mean, deviation = float(found.mean), max(float(found.variance), 0.0) ** 0.5
            spans.append(Interval(label, mean, mean - deviation, mean + deviation))
    return spans


def _rows(data: ReportData, order: list[int]) -> list[list[object]]:
    largest = max(expected.new for expected in data.expected) or 1.0
    rows: list[list[object]] = []
    for relation in order:
        own = data.expected[relation]
        rows.append(
            [data.graph.relations[relation], own.facts, own.pairs, percent(own.prior), own.new,
             bar(own.new / largest, 2), number(own.error) if own.error else Number("exact")]
        )  # fmt: skip
    return rows
