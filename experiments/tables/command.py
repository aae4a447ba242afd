"""`python -m experiments tables`: the tables of the docs, from results and declarations, between their markers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from experiments.store import read_results
from experiments.tables import ablations, around, beyond_paper, data, discovery, options, paper, safety, speed
from experiments.tables.common import RESULTS, Rows
from staypositive.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

TABLES: dict[str, Callable[[Rows], str]] = {
    "table2-classification": lambda rows: paper.table2(rows, "classification", paper.CLASSIFIED),
    "table2-ranking": lambda rows: paper.table2(rows, "ranking", paper.RANKED),
    "table2-optimistic": lambda rows: paper.table2(rows, "ranking", paper.RANKED, ties="optimistic"),
    "table2-settings": paper.table2_settings,
    "grid-seconds": paper.grid_seconds,
    "extended-classification": lambda rows: paper.table2(
        rows, "classification", paper.CLASSIFIED, experiment="extended"
    ),
    "extended-ranking": lambda rows: paper.table2(rows, "ranking", paper.RANKED, experiment="extended"),
    "extended-settings": lambda rows: paper.table2_settings(rows, "extended"),
    "ablations-dropout": ablations.dropout,
    "ablations-scope": ablations.scope,
    "ablations-prior": lambda rows: ablations.variants(rows, "prior score", "closed world", reached=True),
    "ablations-penalty": lambda rows: ablations.variants(rows, "penalty weight", reached=True),
    "ablations-others": lambda rows: ablations.variants(rows, "power", "bound"),
    "paper-and-code": ablations.paper_and_code,
    "dropout-at-test": ablations.dropout_at_test,
    "claims": paper.claims,
    "table1": paper.table1,
    "service": around.service,
    "figure2": paper.figure2,
    "theorem1": paper.theorem1,
    "theorem23": paper.theorem23,
    "speed-loading": speed.speed_loading,
    "busy": speed.busy,
    "lighter-state": speed.lighter_state,
    "speed-memory": speed.speed_memory,
    "datasets": data.datasets,
    "first-runs-ranking": data.first_runs_ranking,
    "first-runs-classification": data.first_runs_classification,
    "first-runs-settings": data.first_runs_settings,
    "speed-cpu": lambda rows: speed.speed(rows, "bench"),
    "speed-growth": lambda rows: speed.speed(rows, "bench-growth"),
    "speed-gpu": lambda rows: speed.speed(rows, "bench-gpu"),
    "speed-theorem": speed.speed_theorem,
    "engines-agree": speed.engines_agree,
    "speed-ranking": speed.speed_ranking,
    "recommender": beyond_paper.recommender,
    "recommender-probabilities": beyond_paper.recommender_probabilities,
    "new-entities": beyond_paper.new_entities,
    "second-moment-until": beyond_paper.second_moment_until,
    "second-moment-ranking": beyond_paper.second_moment_ranking,
    "second-moment-probabilities": beyond_paper.second_moment_probabilities,
    "paper-probabilities": beyond_paper.paper_probabilities,
    "spread": beyond_paper.spread,
    "als": beyond_paper.als,
    "conformal": beyond_paper.conformal,
    "conformal-joined": beyond_paper.conformal_joined,
    "defaults": beyond_paper.defaults,
    "discovery": discovery.discovery,
    "discovery-bins": discovery.bins,
    "labels": discovery.labels,
    "completeness": discovery.completeness,
    "pykeen-side": around.pykeen_side,
    "pykeen-side-setting": around.pykeen_side_setting,
    "sharded": speed.sharded,
    "kills": safety.kills,
    "fuzz": safety.fuzz,
    "soak": safety.soak,
    "large": safety.large,
    "settings": options.settings,
    **{f"options-{name}": partial(options.options, name) for name in OBJECTIVES},
}


def tables(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a page is stale.")] = False,
) -> None:
    """Renew the tables of README.md and docs/ from the results, or check that they are what the results say."""
    rows = read_results(RESULTS)
    stale = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text("utf-8")
        renewed = MARK.sub(lambda mark: mark[1] + TABLES[mark[2]](rows) + mark[3], text)
        if renewed != text:
            stale.append(page.relative_to(ROOT))
            if not check:
                page.write_text(renewed, "utf-8")
    if stale:
        print(f"{'stale' if check else 'renewed'}: {', '.join(map(str, stale))}")
    if stale and check:
        raise typer.Exit(1)
