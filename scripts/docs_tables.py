"""Write the tables of the docs from `results/index.csv`, the catalogue and the settings, between their markers.

python scripts/docs_tables.py            # renew them
python scripts/docs_tables.py --check    # fail if a page is not what the index says
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tables import ablations, around, data, options, paper, past, safety, speed
from tables import sharded as sharded_training
from tables.common import Rows

from staypositive.experiments import read_index
from staypositive.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parents[1]
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
    "recommender": past.recommender,
    "recommender-probabilities": past.recommender_probabilities,
    "new-entities": past.new_entities,
    "second-moment-until": past.second_moment_until,
    "second-moment-ranking": past.second_moment_ranking,
    "second-moment-probabilities": past.second_moment_probabilities,
    "paper-probabilities": past.paper_probabilities,
    "spread": past.spread,
    "als": past.als,
    "conformal": past.conformal,
    "conformal-joined": past.conformal_joined,
    "census": past.score_statistics,
    "defaults": past.defaults,
    "pykeen-side": around.pykeen_side,
    "pykeen-side-setting": around.pykeen_side_setting,
    "sharded": sharded_training.sharded,
    "kills": safety.kills,
    "fuzz": safety.fuzz,
    "soak": safety.soak,
    "large": safety.large,
    "settings": lambda rows: options.settings(),
    **{f"options-{name}": lambda rows, name=name: options.options(name) for name in OBJECTIVES},
}


def main() -> int:
    """Renew or check every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    rows = read_index(ROOT / "results" / "index.csv")
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
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
