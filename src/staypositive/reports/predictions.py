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
    above = _ranked_above(data, facts, chosen)
    rows = [
        [_question(data, facts[q], q), tag("span", _answer(data, facts[q], q), class_="truth"),
         number(int(ranks[q]) if ranks[q] == int(ranks[q]) else float(ranks[q])), percent(float(likely[q])),
         tag("span", " · ".join(above[q]) or "nothing", class_="above")]
        for q in chosen
    ]  # fmt: skip
    return table(["question", "true answer", "rank", "probability", "ranked above it"], rows)


def _is_tail(data: ReportData, query: int) -> bool:
    return bool(data.ranks.is_tail[query])


def _question(data: ReportData, fact: np.ndarray, query: int) -> Html:
    graph = data.graph
    head, relation, tail = graph.entities[fact[0]], graph.relations[fact[1]], graph.entities[fact[2]]
    asked = tag("span", f" {relation} ", class_="relation")
    return join([head, asked, "?"] if _is_tail(data, query) else ["?", asked, tail])


def _answer(data: ReportData, fact: np.ndarray, query: int) -> str:
    return data.graph.entities[int(fact[2 if _is_tail(data, query) else 0])]


def _ranked_above(data: ReportData, facts: np.ndarray, chosen: list[int]) -> dict[int, list[str]]:
    """Return, for each question, the first answers that no split states and that score above the true one."""
    graph = data.graph
    asking = Predictor(graph, data.predictor.scorer.asked())  # the direction that ranking asks
    queries = []
    for query in chosen:
        head, relation, tail = (int(part) for part in facts[query])
        labels = graph.entities[head], graph.relations[relation], graph.entities[tail]
        queries.append(Query(*labels[:2], None) if _is_tail(data, query) else Query(None, labels[1], labels[2]))
    found, scores = asking.find(queries, top=ABOVE, exclude_known=True)
    better = data.ranks.better
    above: dict[int, list[str]] = {query: [] for query in chosen}
    for (place, rank, head, _, tail), _score in zip(found.tolist(), scores.tolist(), strict=True):
        query = chosen[place]
        if rank < better[query]:
            above[query].append(graph.entities[tail if _is_tail(data, query) else head])
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
