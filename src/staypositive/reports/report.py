"""`render_report`: one page that shows a run, with nothing to fetch and nothing to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.models import Ensemble
from staypositive.reports.entity_map import map_section
from staypositive.reports.html import Content, Html, Number, join, number, percent, section, tag
from staypositive.reports.probabilities import probability_section
from staypositive.reports.ranking import fact_section, ranking_section
from staypositive.reports.report_data import ReportData
from staypositive.reports.statistics import discovery_section, statistics_section
from staypositive.reports.training import provenance_section, training_section
from staypositive.version import __version__

if TYPE_CHECKING:
    from staypositive.run import Run

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # fetch nothing, run no script, whatever a label says
SECTIONS: tuple[tuple[str, str, Callable[[ReportData], Content], bool], ...] = (
    ("training", "Training", training_section, False),
    ("ranking", "Ranking", ranking_section, True),
    ("probabilities", "Probabilities", probability_section, True),
    ("statistics", "Score statistics", statistics_section, False),
    ("map", "Map of the entities", map_section, False),
    ("predictions", "Best and worst", fact_section, True),
    ("discoveries", "New facts", discovery_section, False),
    ("provenance", "Settings and provenance", provenance_section, False),
)
"""Name, title and maker of each section, and whether it needs held-out facts."""


def page(
    title: str, subtitle: str, tiles: Iterable[tuple[Number, str]], sections: Iterable[Html], *nav: Html
) -> Html:
    """Return a whole document with the style inside; `tiles` are the few numbers one looks for first, and of what."""
    style = resources.files("staypositive.reports").joinpath("style.css").read_text("utf-8")
    meta = ({"charset": "utf-8"}, {"http_equiv": "Content-Security-Policy", "content": POLICY},
            {"name": "viewport", "content": "width=device-width, initial-scale=1"})  # fmt: skip
    head = tag("head", *(tag("meta", **one) for one in meta), tag("title", title), tag("style", Html(style)))
    shown = (tag("div", tag("b", value), tag("span", said), class_="tile") for value, said in tiles)
    top = tag("h1", title), tag("p", subtitle, class_="subtitle"), tag("div", *shown, class_="tiles"), *nav
    footer = tag("footer", f"Made by staypositive {__version__}.")
    body = tag("body", tag("header", *top), tag("main", *sections), footer)
    return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en")])


def render_report(
    run: Run, *, split: str | None = None, completeness: float | None = None, points: int = 3000,
    seed: int = 0, progress: Callable[[str], Any] | None = None,
) -> str:  # fmt: skip
    """Return the page of a run.

    `split` is where quality is shown: test, or valid where test is empty. `completeness` is the share of all true
    facts that the graph is taken to have, by default the run's. At most `points` entities are drawn on the map.
    `progress` is told each section's title.
    """
    if points < 2:
        raise InputError(f"points must be at least 2, got {points}")
    data = ReportData(run, _split(run.graph, split), completeness, points, seed)
    announce = progress or (lambda _: None)
    if data.split is not None:
        announce(f"Ranking {data.split}")
        kept = run.metrics.get(data.split, {})
        data.report = kept | run.evaluate(data.split, discovery="discovery" not in kept)
    parts, links = [], []
    for name, title, make, needs_facts in SECTIONS:
        if needs_facts and data.split is None:
            continue
        announce(title)
        parts.append(section(title, *make(data), name=name))
        links.append(tag("a", title, href=f"#{name}"))
    heading = f"{run.settings.model} on {run.graph.name}"
    return page(heading, _made(run), _tiles(data), parts, tag("nav", *links))


def write_report(run: Run, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page of a run to a file, whole or not at all; options as in `render_report`."""
    return write_atomic(path, render_report(run, **options))


def _split(graph: KnowledgeGraph, split: str | None) -> str | None:
    if split is None:
        return next((name for name in ("test", "valid") if len(graph.split(name).facts)), None)
    if len(graph.split(split).facts) == 0:
        raise InputError(f"split {split!r} of {graph.name} has no facts to show quality on")
    return split


def _made(run: Run) -> str:
    members = f"an ensemble of {len(run.model.members)} runs, " if isinstance(run.model, Ensemble) else ""
    drawn = run.settings.objective.negatives_per_fact
    negatives = f"{drawn} negatives drawn for each fact" if drawn else "without negative sampling"
    return f"{members}trained by {run.settings.objective.name}, {negatives}"


def _tiles(data: ReportData) -> list[tuple[Number, str]]:
    graph, tiles = data.graph, []
    if "ranking" in data.report:
        plain = data.report["ranking"]["filtered"]["realistic"]["both"]
        tiles += [(number(plain["mrr"]), f"MRR, filtered, {data.split}"), (number(plain["hits@10"]), "Hits@10")]
    if "classification" in data.report:
        *_, (name, measured) = data.report["classification"]["all"].items()
        tiles += [(number(measured["auc"]), f"AUC, {name}"), (number(measured["ece"]), f"calibration error, {name}")]
    if data.run.posterior is not None:
        missing = data.statistics["new_facts"].sum()
        said = f"new facts to expect, if the graph has {percent(data.predictor.assumed)} of all"
        tiles.append((number(round(missing)), said))
    size = f"facts of {len(graph.entities):,} entities, {len(graph.relations)} relations"
    return [*tiles, (number(len(graph.facts())), size)]
