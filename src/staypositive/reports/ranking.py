"""How high held-out facts rank: all readings of the metrics, the whole distribution of ranks, and each relation."""

from __future__ import annotations

from typing import Any

import numpy as np

from staypositive.evaluation import TIES
from staypositive.reports.charts import Series, bar, line_chart
from staypositive.reports.html import Html, figure, folded_table, number, section, table, tag
from staypositive.reports.report_data import ReportData

_METRICS = {
    "mrr": "MRR", "mr": "mean rank", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "amri": "AMRI",
}  # fmt: skip


def ranking_section(data: ReportData) -> Html:
    """Return the table of readings, the curve of ranks and the table by relation."""
    report = data.report["ranking"]
    lead = (
        f"Both sides of each fact of {data.split} are asked for, and the true answer is ranked among all "
        f"{len(data.graph.entities):,} entities. Filtered: other answers known from "
        f"{', '.join(report['filtered_by'])} do not count against it. AMRI: 1 is perfect, 0 is chance."
    )
    curve = figure("True answers among the first k", _curve(data), "share by k, log scale")
    picture = tag("div", curve, _by_relation(data), class_="side")
    return section("Ranking", lead, picture, tag("h3", "Every reading"), _readings(report), name="ranking")


def _curve(data: ReportData) -> Html:
    limit = len(data.graph.entities)
    at = sorted({round(k) for k in np.geomspace(1, limit, 60)})
    lines = []
    for colour, (name, side, filtered) in enumerate(
        (("tails", "tail", True), ("heads", "head", True), ("raw", "both", False))
    ):
        ranks = np.sort(data.ranks.side(side).ranks(filtered=filtered))
        shares = np.searchsorted(ranks, at, side="right") / len(ranks)
        lines.append(Series(name, at, shares.tolist(), colour if filtered else 8))
    return line_chart(
        lines, "share of true answers ranked among the first k", log_x=True, y_range=(0, 1), width=400, height=280
    )


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
    rows = [
        [name, bar(m["mrr"], title=f"MRR {number(m['mrr'])}"), m["mrr"], m["hits@1"], m["hits@10"], m["mr"],
         m["queries"]]
        for name, m in each
    ]  # fmt: skip
    header = ["relation", "", "MRR", "Hits@1", "Hits@10", "mean rank", "questions"]
    return tag("div", tag("h3", "By relation, best first"), *folded_table(header, rows))
