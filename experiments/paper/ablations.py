"""Ablations: the chosen setting of a row of Table 2, changed in one way, from every seed.

Nothing is selected here but the epoch, by validation. Each run is measured on test, and by the mean of all possible
scores and probabilities that it reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from experiments.artifacts import Artifact, result_artifact
from experiments.context import ExperimentContext
from experiments.paper.packed_runs import Outcome, train_runs
from experiments.paper.paper import Cell, Paper
from experiments.paper.table2 import about_row, chosen_records, settings_of_record
from experiments.store import Row
from staypositive.errors import InputError
from staypositive.evaluation import rank_facts, ranking_metrics
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel, Scorer
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import Settings, settings_from

SAMPLED = 1_000_000
"""Triples that the mean probability is estimated from."""


@dataclass(frozen=True)
class Variant:
    """One change of a setting."""

    group: str
    change: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """What results and tables call it."""
        return f"{self.group}: {', '.join(f'{key} {value}' for key, value in self.change)}"

    def apply(self, settings: Settings, seed: int) -> Settings:
        """Return the setting with the change, from a seed."""
        changes = dict(self.change)
        free = {"prior_score": None} if "closed_world" in changes else {}
        return settings_from({**settings.keywords(), **free, **changes, "seed": seed})


def variants(paper: Paper, cell: Cell) -> list[Variant]:
    """Return the changes that apply to a row."""
    return [
        Variant(group["name"], tuple(change.items()))
        for group in paper.ablations
        if cell.name in group["rows"]
        for change in group["changes"]
    ]


def missing_variants(paper: Paper, cell: Cell, rows: Iterable[Row]) -> list[Variant]:
    """Return the variants of a row that the results do not have from every seed."""
    place = ("ablations", cell.dataset, cell.model, cell.objective)
    seeds: dict[str, set[str]] = {}
    for row in rows:
        if (row["experiment"], row["dataset"], row["model"], row["objective"]) == place:
            seeds.setdefault(row["setting"].partition(";")[0], set()).add(row["seed"])
    wanted = {str(seed) for seed in paper.rule_of_ablations(cell).seeds}
    return [variant for variant in variants(paper, cell) if not wanted <= seeds.get(variant.name, set())]


def ablate(
    paper: Paper, cell: Cell, graph: KnowledgeGraph, context: ExperimentContext, wanted: Sequence[Variant],
    progress: Callable[[int], Any] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train variants of a row from every seed; return rows of the results."""
    rule = paper.rule_of_ablations(cell)
    chosen = chosen_records(paper, cell, dataclasses.replace(context, experiment="table2"))
    if not chosen:
        raise InputError(
            f"{cell.name} on {cell.dataset} has no chosen setting yet; run `reproduce table2` for it first"
        )
    base = settings_of_record(cell, chosen[0], rule.batch_size(len(graph.train.facts)))
    usual = base.objective.defaults  # said aloud, so that a variant that names them is seen to change nothing
    base = dataclasses.replace(base, bound=usual.bound, accumulator=usual.accumulator)
    asked = [(variant, variant.apply(base, seed)) for variant in wanted for seed in rule.seeds]
    settings = list(dict.fromkeys(one for _, one in asked))  # what leaves the chosen setting as it is trains once
    measure = validation_measure(graph, rule.valid_facts, rule.monitor)
    outcomes = train_runs(graph, settings, rule.second_round(), measure, context.device, progress)
    figures = {outcome.settings: _figures(cell, outcome, graph, context) for outcome in outcomes}
    return [row | {"setting": f"{variant.name}; {row['setting']}"} for variant, one in asked for row in figures[one]]


def _figures(cell: Cell, outcome: Outcome, graph: KnowledgeGraph, context: ExperimentContext) -> list[dict[str, Any]]:
    about = about_row(cell, outcome, graph, context, selected_on="valid") | {"split": "test"}
    means = mean_reached(outcome.model) | {"best_epoch": outcome.best_epoch, "epochs": outcome.epochs}
    rows = [about | {"metric": name, "value": value, "split": "all triples"} for name, value in means.items()]
    if outcome.diverged and not outcome.best_epoch:
        return rows
    kept: Artifact = result_artifact(graph, outcome.model, about)
    if kept.kind == "ranking" and outcome.settings.dropout:
        dropped = rank_facts(ScorerWithDropout(outcome.model), graph.test.facts, graph.facts())
        rows.append(about | {"metric": "mrr_dropout_at_test", "value": ranking_metrics(dropped)["mrr"]})
    wanted = ("mrr", "hits@1", "nll", "brier", "auc", "nll_platt", "brier_platt")
    plain = {"filter": "filtered", "ties": "realistic", "side": "both"}
    return rows + [
        row
        for row in kept.rows()
        if row["metric"] in wanted and all(row.get(name, value) == value for name, value in plain.items())
    ]


class ScorerWithDropout(Scorer):
    """Scores as training forms them, each candidate's products dropped anew: the authors' final test leaves it so."""

    def tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return φ of every tail, with dropout."""
        return self._score(self.entity_rows[heads], self.relation_rows[relations], is_tail=True)

    def heads(self, relations: Tensor, tails: Tensor) -> Tensor:
        """Return φ of every head, with dropout."""
        return self._score(self.entity_rows[tails], self.relation_rows[relations], is_tail=False)

    def _score(self, given: Tensor, relations: Tensor, *, is_tail: bool) -> Tensor:
        model, every, n = self.model, self.entity_rows, self.n_entities
        model.train()
        scores = []
        for number, (row, relation) in enumerate(zip(given, relations, strict=True)):
            rows, key = row.expand(n, -1), torch.tensor(2 * number + is_tail, device=self.device)
            pair = (rows, every) if is_tail else (every, rows)
            scores.append(model.score_rows_with_dropout(pair[0], relation.expand(n, -1), pair[1], key))
        model.eval()
        return torch.stack(scores)


@torch.no_grad()
def mean_reached(model: BilinearModel) -> dict[str, float]:
    """Return the mean log-odds of all triples (exact, Theorem 1) and their mean probability (sampled)."""
    model.eval()
    device = model.entities.device
    draw = torch.Generator(device).manual_seed(0)

    def ids(n: int) -> Tensor:
        return torch.randint(n, (SAMPLED,), generator=draw, device=device)

    total = torch.zeros((), dtype=torch.float64, device=device)
    triples = torch.stack([ids(model.n_entities), ids(model.n_relations), ids(model.n_entities)], dim=1)
    for piece in triples.split(100_000):
        total += torch.sigmoid(model.logit(*piece.unbind(1))).double().sum()
    return {
        "mean_logit": float(model.mean_score()) + model.prior_score,
        "mean_probability": float(total) / SAMPLED,
    }
