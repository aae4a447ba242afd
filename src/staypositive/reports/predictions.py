"""Single predictions: held-out facts found best and worst, with what ranked above them, and likely new facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from staypositive.evaluation import sigmoid
from staypositive.inference import Predictor, Query, best_first, discover
from staypositive.reports.charts import bar
from staypositive.reports.html import Html, join, number, percent, section, table, tag
from staypositive.reports.report_data import ReportData

LISTED = 10
PER_RELATION = 2
"""Questions of one relation that are listed at most, so that the list tells of more than one."""
ABOVE = 4
FINDS = 6
OFFERED = 2000
"""Triples of a relation that are looked at."""
RELATIONS = 12
LEAST = 1e-3
"""The least probability of a new fact that is listed."""


def fact_section(data: ReportData) -> Html:
    """Return the held-out facts with the best and the worst ranks."""
    ranks = data.ranks.ranks()
    facts = np.tile(data.graph.split(data.split or "test").facts, (2, 1))
    likely = data.probabilities(facts)
    best, worst = (best_first(-sign * ranks, sign * likely, facts) for sign in (1.0, -1.0))
    lead = (
        f"Questions about facts of {data.split} and where the true answer came among all entities, other known "
        f"answers left out. At most {PER_RELATION} of each relation. Probabilities are at each relation's prior."
    )
    return section(
        "Best and worst",
        lead,
        tag("h3", "Worst ranked"),
        _listing(data, facts, ranks, likely, worst),
        tag("h3", "Best ranked"),
        _listing(data, facts, ranks, likely, best),
        name="predictions",
    )


def _listing(
    data: ReportData, facts: np.ndarray, ranks: np.ndarray, likely: np.ndarray, order: Iterable[int]
) -> Html:
    seen: Counter[int] = Counter()
    chosen = []
    for query in order:
        relation = int(facts[query, 1])
        seen[relation] += 1
        if seen[relation] <= PER_RELATION:
            chosen.append(int(query))
        if len(chosen) == LISTED:
            break
    is_tail, entities = data.ranks.is_tail, data.graph.entities
    above = _ranked_above(data, facts, chosen)
    rows = []
    for q in chosen:
        first, said, last = entities[facts[q, 0]], data.graph.relations[facts[q, 1]], entities[facts[q, 2]]
        asked = tag("span", f" {said} ", class_="relation")
        rows.append([
            join([first, asked, "?"] if is_tail[q] else ["?", asked, last]),
            tag("span", last if is_tail[q] else first, class_="truth"),
            number(int(ranks[q]) if ranks[q] == int(ranks[q]) else float(ranks[q])),
            percent(float(likely[q])),
            tag("span", " · ".join(above[q]) or "nothing", class_="above"),
        ])  # fmt: skip
    return table(["question", "true answer", "rank", "probability", "ranked above it"], rows)


def _ranked_above(data: ReportData, facts: np.ndarray, chosen: list[int]) -> dict[int, list[str]]:
    """Return, for each question, the first answers that no split states and that score above the true one."""
    graph, is_tail, better = data.graph, data.ranks.is_tail, data.ranks.better
    asking = Predictor(graph, data.predictor.scorer.asked())  # the direction that ranking asks
    queries = []
    for query in chosen:
        head, relation, tail = (int(part) for part in facts[query])
        own = (graph.entities[head], None) if is_tail[query] else (None, graph.entities[tail])
        queries.append(Query(own[0], graph.relations[relation], own[1]))
    found, _ = asking.find(queries, top=ABOVE, exclude_known=True)
    above: dict[int, list[str]] = {query: [] for query in chosen}
    for place, rank, head, _, tail in found.tolist():
        query = chosen[place]
        if rank < better[query]:
            above[query].append(graph.entities[tail if is_tail[query] else head])
    for query, names in above.items():
        if better[query] > len(names):
            names.append(f"… {better[query] - len(names):,} more")
    return above


def discovery_section(data: ReportData) -> Html:
    """Return the likeliest new facts of the relations that have most facts."""
    order = sorted(data.expected, key=lambda expected: -expected.facts)[:RELATIONS]
    finds = [_finds(data, expected.relation, expected.prior) for expected in order if expected.pairs]
    lead = (
        "Triples that no split states, most likely first, among the heads and tails that the relation's training "
        "facts have, one for each head. Probabilities are at each relation's prior: what is new is taken for rare."
    )
    return section("New facts", lead, tag("div", *finds, class_="finds"), name="discoveries")


def _finds(data: ReportData, relation: int, prior: float) -> Html:
    graph = data.graph
    (found,) = discover(data.predictor, min_probability=LEAST, prior=prior, relations=[relation], most=OFFERED)
    seen = set()
    items: list[Html] = []
    for place, (head, _, tail) in enumerate(found.triples.tolist()):
        if head in seen or len(items) == FINDS:
            continue
        seen.add(head)
        likely = float(sigmoid(found.logits[place]))
        said = join([graph.entities[head], tag("span", " → ", class_="relation"), graph.entities[tail]])
        share = tag("span", percent(likely), class_="number")
        items.append(tag("li", tag("span", said), bar(likely, 2, width=52), share))
    if not items:
        items.append(tag("li", tag("span", f"none above {percent(LEAST)}", class_="note")))
    title = tag("h3", graph.relations[relation], tag("span", f"prior {percent(prior)}"))
    return tag("div", title, tag("ol", *items), class_="find")
