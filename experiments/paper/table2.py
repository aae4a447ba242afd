"""Table 2 by the paper's grid search: every setting trained, the best by validation trained again from other seeds.

Round one trains each setting of the grid for at most `rule.epochs`; round two trains the `rule.finalists` best of
them from `rule.seeds` for up to `rule.final_epochs`. The chosen setting has the best mean validation over seeds. Each
round writes what it found (`grid.csv`, `finals.csv`, `artifacts/` under the results), and is skipped where that is
there.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.artifacts import FOLDER, SUFFIX, Artifact, result_artifact
from experiments.context import ExperimentContext
from experiments.paper.packed_runs import Outcome, Schedule, side_by_side, train_runs
from experiments.paper.paper import Cell, Paper, Rule
from experiments.store import as_text, csv_text
from staypositive.errors import StayPositiveError
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.objectives import SecondMoment
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import Settings, make_settings

OPTIONS = ("learning_rate", "penalty_weight", "l2", "dim", "dropout", "prior_score", "negatives")
SYMBOLS = {"learning_rate": "lr", "penalty_weight": "λ", "l2": "L2", "dim": "d", "prior_score": "ψ", "negatives": "n"}
RECORD_COLUMNS = (
    *OPTIONS, "seed", "metric", "value", "best_epoch", "epochs", "diverged", "seconds", "device", "version", "commit",
)  # fmt: skip

Record = dict[str, str]


def options_of(settings: Settings) -> dict[str, Any]:
    """Return the searched options of a setting, by name."""
    values = {**dataclasses.asdict(settings.objective), **vars(settings)}  # type: ignore[call-overload]
    return {name: values[name] for name in OPTIONS if values.get(name) is not None}


def describe(settings: Settings) -> str:
    """Return a setting as one reads it: `lr 0.1, λ 0.1, d 200, dropout 0.4, ψ -2`."""
    parts = [f"{SYMBOLS.get(name, name)} {value:g}" for name, value in options_of(settings).items()]
    if isinstance(settings.objective, SecondMoment):
        own = {"batch": settings.batch_size, **dataclasses.asdict(settings.objective)}
        parts += [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in own.items()
        ]
    return ", ".join(parts)


def search(
    paper: Paper, cell: Cell, graph: KnowledgeGraph, context: ExperimentContext, grid: str = "full",
    progress: Callable[[int], Any] | None = None,
) -> list[Record]:  # fmt: skip
    """Round one: train every setting of the grid; return what each reached on validation.

    It is written after each group of runs that train side by side; what is there already is not trained again.
    """
    rule = paper.rule_of(cell)
    settings = paper.settings(cell, grid, rule.batch_size(len(graph.train.facts)))
    known = {_options_key(record): record for record in read_records(context, "grid", cell.slug)}
    missing = [one for one in settings if _options_key(options_of(one)) not in known]
    measure, metric = validation_measure(graph, rule.valid_facts, rule.monitor), chosen_by(graph, rule)
    for group in side_by_side(missing, context.device):
        chosen = [missing[place] for place in group]
        for outcome in train_runs(graph, chosen, rule.first_round(), measure, context.device, progress):
            known[_options_key(options_of(outcome.settings))] = _record(outcome, outcome.best_value, metric, context)
        found = (known.get(_options_key(options_of(one))) for one in settings)
        write_records(context, "grid", cell.slug, [record for record in found if record])
    return [known[_options_key(options_of(one))] for one in settings]


def decide(
    paper: Paper, cell: Cell, graph: KnowledgeGraph, context: ExperimentContext, records: Sequence[Record],
    grid: str = "full", progress: Callable[[int], Any] | None = None,
) -> list[Artifact]:  # fmt: skip
    """Round two: train the best settings from every seed, choose one, and keep its results on test."""
    rule = paper.rule_of(cell)
    paths = [artifact_path(context, cell.slug, seed) for seed in rule.seeds]
    if all(path.exists() for path in paths):
        return [Artifact.read(path) for path in paths]
    settings = paper.settings(cell, grid, rule.batch_size(len(graph.train.facts)))
    finalists = [settings[place] for place in best_places(records, rule.finalists)]
    runs = [dataclasses.replace(one, seed=seed) for one in finalists for seed in rule.seeds]
    measure = validation_measure(graph, rule.valid_facts, rule.monitor)
    outcomes = train_runs(graph, runs, rule.second_round(), measure, context.device, progress)
    whole, metric = validation_measure(graph, None, rule.monitor), chosen_by(graph, rule)
    values = [whole(outcome.model) if outcome.best_epoch else -math.inf for outcome in outcomes]
    write_records(
        context,
        "finals",
        cell.slug,
        [_record(outcome, value, metric, context) for outcome, value in zip(outcomes, values, strict=True)],
    )
    seeds = len(rule.seeds)
    means = [sum(values[start : start + seeds]) / seeds for start in range(0, len(values), seeds)]
    best = max(range(len(means)), key=means.__getitem__)
    if not math.isfinite(means[best]):
        raise StayPositiveError(f"no setting of {cell.name} on {cell.dataset} trained to the end")
    kept = []
    for path, outcome in zip(paths, outcomes[best * seeds :], strict=False):
        result = result_artifact(graph, outcome.model, about_row(cell, outcome, graph, context))
        result.write(path)
        kept.append(result)
    return kept


def chosen_by(graph: KnowledgeGraph, rule: Rule) -> str:
    """Return the metric of validation that settings and epochs are chosen by."""
    return rule.monitor or ("nll" if graph.valid.has_negatives else "mrr")


def chosen_records(paper: Paper, cell: Cell, context: ExperimentContext) -> list[Record]:
    """Return what the chosen setting reached in round two, a record a seed; empty where that was not run."""
    records, seeds = read_records(context, "finals", cell.slug), len(paper.rule.seeds)
    if not records:
        return []
    start = records.index(best_mean(records, seeds))
    return records[start : start + seeds]


def settings_of_record(cell: Cell, record: Record, batch_size: int) -> Settings:
    """Return the settings that a record is about."""
    options = {name: record[name] for name in OPTIONS if record[name] != ""}
    numbers = {n: int(text) if n in ("dim", "negatives") else float(text) for n, text in options.items()}
    seed = int(record["seed"])
    return make_settings(model=cell.model, objective=cell.objective, batch_size=batch_size, seed=seed, **numbers)


def rerun(
    paper: Paper, cell: Cell, graph: KnowledgeGraph, context: ExperimentContext, record: Record,
    progress: Callable[[int], Any] | None = None, keep: Callable[..., Artifact] = result_artifact,
) -> Artifact:  # fmt: skip
    """Train one chosen run again, for as many epochs as its best took, and keep what `keep` does of it."""
    settings = settings_of_record(cell, record, paper.rule.batch_size(len(graph.train.facts)))
    epochs = int(record["best_epoch"])
    measure = validation_measure(graph, paper.rule.valid_facts)
    (outcome,) = train_runs(graph, [settings], Schedule(epochs, epochs), measure, context.device, progress)
    return keep(graph, outcome.model, about_row(cell, outcome, graph, context))


def about_row(
    cell: Cell, outcome: Outcome, graph: KnowledgeGraph, context: ExperimentContext, selected_on: str = "valid"
) -> dict[str, Any]:
    """Return the columns that all rows of one trained run share."""
    settings = outcome.settings
    drawn = settings.objective.negatives_per_fact * len(graph.train.facts) * outcome.epochs
    return context.columns(
        graph, model=cell.model, objective=cell.objective, dim=settings.dim, setting=describe(settings),
        seed=settings.seed, negatives_drawn=drawn, selected_on=selected_on,
    )  # fmt: skip


def artifact_path(context: ExperimentContext, slug: str, seed: int | str) -> Path:
    """Return the file that a run's test results are kept in."""
    return context.path(FOLDER, f"{slug}-{seed}", SUFFIX)


def rows_of_cell(cell: Cell, kept: Sequence[tuple[str, Artifact]]) -> list[dict[str, Any]]:
    """Return a cell's rows of the results, the paper's number beside ours where it has one."""
    published = dict(cell.published)
    rows = []
    for file, result in kept:
        for row in result.rows(file):
            plain = row.get("filter", "filtered") == "filtered" and row.get("side", "both") == "both"
            plain = plain and row.get("ties", "realistic") == "realistic"
            if plain and row["metric"] in published:
                row |= {"published": published[row["metric"]], "source": "Hajimoradlou and Kazemi 2020, Table 2"}
            rows.append(row)
    return rows


def best_places(records: Sequence[Record], count: int) -> list[int]:
    """Return the places of the best records, best first; those that diverged or say nothing come last."""
    order = sorted(range(len(records)), key=lambda place: _goodness(records[place]), reverse=True)
    return order[:count]


def best_mean(records: Sequence[Record], seeds: int) -> Record:
    """Return the first record of the setting with the best mean; each setting has one per seed, in a row."""
    starts = range(0, len(records), seeds)
    return records[max(starts, key=lambda start: sum(_goodness(r) for r in records[start : start + seeds]))]


def _goodness(record: Record) -> float:
    value = float(record["value"])
    if not math.isfinite(value):
        return -math.inf
    return -value if record["metric"] == "nll" else value


def _record(outcome: Outcome, value: float, metric: str, context: ExperimentContext) -> Record:
    found = {
        **options_of(outcome.settings), "seed": outcome.settings.seed, "metric": metric,
        "value": -value if metric == "nll" else value, "best_epoch": outcome.best_epoch, "epochs": outcome.epochs,
        "diverged": int(outcome.diverged), "seconds": outcome.seconds, **context.origin(),
    }  # fmt: skip
    return {name: as_text(found.get(name, "")) for name in RECORD_COLUMNS}


def _options_key(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tells settings of one grid apart, the same from a setting and from its record."""
    return tuple(as_text(options.get(name, "")) for name in OPTIONS)


def write_records(context: ExperimentContext, kind: str, slug: str, records: Sequence[Record]) -> None:
    """Write what the runs of one cell reached in a round (`grid` or `finals`), in place of what was known of it."""
    add_records(context.results, kind, [{"experiment": context.experiment, "cell": slug} | one for one in records])


def add_records(results: Path, kind: str, records: Sequence[Record]) -> None:
    """Add the records of whole cells to a round's file; cells that it has already are replaced."""
    path = results / f"{kind}.csv"
    cells = {(one["experiment"], one["cell"]) for one in records}
    others = [one for one in all_records(results, kind) if (one["experiment"], one["cell"]) not in cells]
    every = sorted([*others, *records], key=lambda one: (one["experiment"], one["cell"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, csv_text(("experiment", "cell", *RECORD_COLUMNS), every))


def read_records(context: ExperimentContext, kind: str, slug: str) -> list[Record]:
    """Read what the runs of one cell reached in a round; empty where that was not run."""
    own = [one for one in all_records(context.results, kind) if one["experiment"] == context.experiment]
    return [{name: one[name] for name in RECORD_COLUMNS} for one in own if one["cell"] == slug]


def all_records(results: Path, kind: str) -> list[Record]:
    """Read what the runs of every cell reached in a round."""
    path = results / f"{kind}.csv"
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))) if path.exists() else []
