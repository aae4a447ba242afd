"""How high held-out facts rank: every reading of the metrics, each relation, and the best and worst answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from staypositive.evaluation import TIES
from staypositive.inference import Predictor, Query, best_first
from staypositive.reports.charts import Series, bar, line_chart
from staypositive.reports.html import Content, Html, figure, folded_table, join, number, percent, table, tag
from staypositive.reports.report_data import ReportData

LISTED, PER_RELATION = 10, 2  # questions listed as best and as worst: in all, and of one relation at most
ABOVE = 4  # names of answers that ranked above the true one
_METRICS = {
    "mrr": "MRR", "mr": "mean rank", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "amri": "AMRI",
}  # fmt: skip


def ranking_section(data: ReportData) -> Content:
    report = data.report["ranking"]
    lead = (
        f"Both sides of each fact of {data.split} are asked for, and the true answer is ranked among all "
        f"{len(data.graph.entities):,} entities. Filtered: other answers known from "
        f"{', '.join(report['filtered_by'])} do not count against it. AMRI: 1 is perfect, 0 is chance."
    )
    curve = figure("True answers among the first k", _curve(data), "share by k, log scale")
    picture = tag("div", curve, _by_relation(data), class_="side")
    return [lead, picture, tag("h3", "Every reading"), _readings(report)]


def _curve(data: ReportData) -> Html:
    at = sorted({round(k) for k in np.geomspace(1, len(data.graph.entities), 60)})
    lines = []
    for name, side, colour in (("tails", "tail", 0), ("heads", "head", 1), ("raw", "both", 8)):
        ranks = np.sort(data.ranks.side(side).ranks(filtered=name != "raw"))
        shares = np.searchsorted(ranks, at, side="right") / len(ranks)
        lines.append(Series(name, at, shares.tolist(), colour))
    said = "share of true answers ranked among the first k"
    return line_chart(lines, said, log_x=True, y_range=(0, 1), width=400, height=280)


def _readings(report: dict[str, Any]) -> Html:
    names = {"both": "", "tail": ", tail prediction", "head": ", head prediction"}
    found = []
    for setting in ("filtered", "raw"):
        measured = report[setting]
        found += [(setting + said, "realistic", measured["realistic"][side]) for side, said in names.items()]
        found += [(setting, ties, measured[ties]["both"]) for ties in TIES[1:]]
    if "without_unseen" in report:
        found.append(("filtered, seen entities only", "realistic", report["without_unseen"]))
    rows = [[name, ties, *(metrics[key] for key in _METRICS)] for name, ties, metrics in found]
    return table(["", "ties", *_METRICS.values()], rows)


def _by_relation(data: ReportData) -> Html:
    each = sorted(data.report["ranking"]["relations"].items(), key=lambda item: -item[1]["mrr"])
    keys = ("mrr", "hits@1", "hits@10", "mr", "queries")
    rows = [[name, bar(m["mrr"], title=f"MRR {number(m['mrr'])}"), *(m[key] for key in keys)] for name, m in each]
    header = ["relation", "", "MRR", "Hits@1", "Hits@10", "mean rank", "questions"]
    return tag("div", tag("h3", "By relation, best first"), *folded_table(header, rows))


def fact_section(data: ReportData) -> Content:
    ranks = data.ranks.ranks()
    facts = np.tile(data.graph.split(data.split or "test").facts, (2, 1))
    likely = data.probabilities(facts)
    best, worst = (best_first(-sign * ranks, sign * np.nan_to_num(likely), facts) for sign in (1.0, -1.0))
    lead = (
        f"Questions about facts of {data.split} and where the true answer came among all entities, other known "
        f"answers left out. At most {PER_RELATION} of each relation. Probabilities are those if they were unknown."
    )
    first = [tag("h3", "Worst ranked"), _listing(data, facts, ranks, likely, worst)]
    last = [tag("h3", "Best ranked"), _listing(data, facts, ranks, likely, best)]
    return [lead, *first, *last]


def _listing(data: ReportData, facts: np.ndarray, ranks: np.ndarray, likely: np.ndarray, order: np.ndarray) -> Html:
    relations = pd.Series(facts[order, 1])
    chosen = order[relations.groupby(relations).cumcount() < PER_RELATION][:LISTED].tolist()
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
            *([percent(float(likely[q]))] if data.predictor.posterior is not None else []),
            tag("span", " · ".join(above[q]) or "nothing", class_="above"),
        ])  # fmt: skip
    stated = ["probability"] if data.predictor.posterior is not None else []
    return table(["question", "true answer", "rank", *stated, "ranked above it"], rows)


def _ranked_above(data: ReportData, facts: np.ndarray, chosen: list[int]) -> dict[int, list[str]]:
    """Return, for each question, the first answers that no split states and that score above the true one."""
    graph, is_tail, better = data.graph, data.ranks.is_tail, data.ranks.better
    asking = Predictor(graph, data.predictor.scorer.asked())  # the direction that ranking asks
    queries = []
    for query in chosen:
        head, relation, tail = facts[query].tolist()
        own = (graph.entities[head], None) if is_tail[query] else (None, graph.entities[tail])
        queries.append(Query(own[0], graph.relations[relation], own[1]))
    found = asking.find(queries, top=ABOVE, exclude_known=True).rows
    above: dict[int, list[str]] = {query: [] for query in chosen}
    for place, rank, head, _, tail in found.tolist():
        query = chosen[place]
        if rank < better[query]:
            above[query].append(graph.entities[tail if is_tail[query] else head])
    for query, names in above.items():
        if better[query] > len(names):
            names.append(f"… {better[query] - len(names):,} more")
    return above
