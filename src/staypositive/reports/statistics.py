"""Score statistics: where each relation's |E|² scores lie, exactly, and which new facts to expect."""

from __future__ import annotations

import numpy as np

from staypositive.evaluation import sigmoid
from staypositive.inference import discover, mean_and_std
from staypositive.reports.charts import Interval, bar, interval_chart
from staypositive.reports.html import SHOWN, Content, Html, Number, figure, folded_table, join, number, percent, tag
from staypositive.reports.report_data import ReportData

RELATIONS, FINDS = 12, 6  # relations whose new facts are listed, and how many of each
OFFERED = 2000  # triples of a relation that are looked at
LEAST = 1e-3  # probability of a new fact that is listed


def statistics_section(data: ReportData) -> Content:
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
    left, right = figure("Scores: mean ± standard deviation", drawn), tag("div", *folded_table(header, rows))
    return [lead, tag("div", left, right, class_="side wide")]


def discovery_section(data: ReportData) -> Content:
    order = sorted(data.expected, key=lambda expected: -expected.facts)[:RELATIONS]
    finds = [_finds(data, expected.relation, expected.prior) for expected in order if expected.pairs]
    lead = (
        "Triples that no split states, most likely first, among the heads and tails that the relation's training "
        "facts have, one for each head. Probabilities are at each relation's prior: what is new is taken for rare."
    )
    return [lead, tag("div", *finds, class_="finds")]


def _finds(data: ReportData, relation: int, prior: float) -> Html:
    graph = data.graph
    (found,) = discover(data.predictor, min_probability=LEAST, prior=prior, relations=[relation], most=OFFERED)
    likely = sigmoid(found.logits)
    items = []
    for place in np.sort(np.unique(found.triples[:, 0], return_index=True)[1])[:FINDS].tolist():  # each head's best
        head, _, tail = found.triples[place].tolist()
        said = join([graph.entities[head], tag("span", " → ", class_="relation"), graph.entities[tail]])
        share = tag("span", percent(likely[place]), class_="number")
        items.append(tag("li", tag("span", said), bar(likely[place], 2, width=52), share))
    if not items:
        items.append(tag("li", tag("span", f"none above {percent(LEAST)}", class_="note")))
    title = tag("h3", graph.relations[relation], tag("span", f"prior {percent(prior)}"))
    return tag("div", title, tag("ol", *items), class_="find")
