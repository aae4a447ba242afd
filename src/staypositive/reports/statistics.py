"""Score statistics: where each relation's |E|² scores lie, exactly, and how many new facts to expect."""

from __future__ import annotations

from staypositive.inference import mean_and_std
from staypositive.reports.charts import Interval, bar, interval_chart
from staypositive.reports.html import SHOWN, Html, Number, figure, folded_table, number, percent, section, tag
from staypositive.reports.report_data import ReportData


def statistics_section(data: ReportData) -> Html:
    """Return means with standard deviations, and the table of what to expect."""
    relations, n = data.graph.relations, len(data.graph.entities)
    order = sorted(range(len(relations)), key=lambda r: -data.expected[r].facts)
    means, stds = mean_and_std(data.predictor)
    spans = [Interval(relations[r], means[r], means[r] - stds[r], means[r] + stds[r]) for r in order[:SHOWN]]
    drawn = interval_chart(spans, "mean and standard deviation of all scores")
    assumed = "the share of facts among those pairs" if data.prior is None else f"{data.prior:g}, as asked"
    lead = (
        f"Mean and standard deviation of all {n:,}² scores of each relation, in closed form. New facts to expect are "
        "the sum of the probabilities of all pairs of a relation's heads and tails that no split states; the prior "
        f"is {assumed}."
    )
    largest = max(expected.new for expected in data.expected) or 1.0
    rows = [
        [relations[own.relation], own.facts, own.pairs, percent(own.prior), own.new, bar(own.new / largest, 2),
         number(own.error) if own.error else Number("exact")]
        for own in (data.expected[relation] for relation in order)
    ]  # fmt: skip
    header = ["relation", "facts", "pairs", "prior", "new facts to expect", "", "± s.e."]
    side = tag(
        "div",
        figure("Scores: mean ± standard deviation", drawn),
        tag("div", *folded_table(header, rows)),
        class_="side wide",
    )
    return section("Score statistics", lead, side, name="statistics")
