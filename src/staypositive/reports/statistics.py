"""Score statistics: where each relation's |E|² scores lie, exactly, and which new facts to expect."""

from __future__ import annotations

import numpy as np

from staypositive.evaluation import sigmoid
from staypositive.inference import discover
from staypositive.reports.charts import Interval, bar, interval_chart
from staypositive.reports.html import SHOWN, Content, Html, figure, folded_table, join, number, percent, tag
from staypositive.reports.report_data import ReportData

RELATIONS, FINDS = 12, 6  # relations whose new facts are listed, and how many of each
OFFERED = 2000  # triples of a relation that are looked at
LEAST = 1e-3  # probability of a new fact that is listed


def statistics_section(data: ReportData) -> Content:
    shown, n = data.statistics, len(data.graph.entities)
    rows = list(zip(shown["relation"], shown["mean"], shown["std"], strict=True))[:SHOWN]
    spans = [Interval(relation, mean, mean - std, mean + std) for relation, mean, std in rows]
    drawn = figure("Scores: mean ± standard deviation", interval_chart(spans, "mean and deviation of all scores"))
    lead = f"Mean and standard deviation of all {n:,}² scores of each relation, in closed form."
    if data.predictor.posterior is None:
        facts = [[relation, count] for relation, count in zip(shown["relation"], shown["facts"], strict=True)]
        return [lead, tag("div", drawn, tag("div", *folded_table(["relation", "facts"], facts)), class_="side wide")]
    lead += (
        " New facts to expect are the sum of the probabilities of all triples that no split states, if the graph has "
        f"{percent(data.predictor.assumed)} of all true facts; ± is a standard error."
    )
    most = float(shown["new_facts"].max()) or 1.0
    columns = [shown[name] for name in ("relation", "facts", "new_facts", "new_error")]
    table = [
        [relation, facts, new, bar(new / most, 2), number(error)]
        for relation, facts, new, error in zip(*columns, strict=True)
    ]
    listed = folded_table(["relation", "facts", "new facts to expect", "", "±"], table)
    return [lead, tag("div", drawn, tag("div", *listed), class_="side wide")]


def discovery_section(data: ReportData) -> Content:
    names = data.graph.relations
    finds = [_finds(data, names.id(relation)) for relation in data.statistics["relation"][:RELATIONS]]
    lead = "Triples that no split states, most likely first, one for each head."
    if data.predictor.posterior is None:
        lead = "Triples that no split states, by score alone, one for each head of the relation's training facts."
    return [lead, tag("div", *finds, class_="finds")]


def _finds(data: ReportData, relation: int) -> Html:
    graph, fitted = data.graph, data.predictor.posterior is not None
    (found,) = discover(data.predictor, min_probability=LEAST if fitted else None, relations=[relation], most=OFFERED)
    likely = sigmoid(found.logits)
    items = []
    for place in np.sort(np.unique(found.triples[:, 0], return_index=True)[1])[:FINDS].tolist():  # each head's best
        head, _, tail = found.triples[place].tolist()
        said = join([graph.entities[head], tag("span", " → ", class_="relation"), graph.entities[tail]])
        stated = [bar(likely[place], 2, width=52), tag("span", percent(likely[place]), class_="number")]
        items.append(tag("li", tag("span", said), *(stated if fitted else [])))
    if not items:
        items.append(tag("li", tag("span", f"none above {percent(LEAST)}" if fitted else "none", class_="note")))
    return tag("div", tag("h3", graph.relations[relation]), tag("ol", *items), class_="find")
