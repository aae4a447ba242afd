"""Ablations: the chosen setting of a row of Table 2, changed in one way, from every seed.

Nothing is selected here but the epoch, by validation. Each run is measured on test, and by the mean of all possible
scores and probabilities that it reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from staypositive.errors import InputError
from staypositive.experiments.kept import Kept, keep_result
from staypositive.experiments.many import Outcome, train_many, validation_measure
from staypositive.experiments.paper import Cell, Paper
from staypositive.experiments.table2 import Lab, about_row, chosen_records, settings_of_record
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel
from staypositive.run.settings import Settings, make_settings

SAMPLED = 1_000_000
"""Triples that the mean probability is estimated from."""


@dataclass(frozen=True)
class Variant:
    """One change of a setting."""

    group: str
    change: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """What tables call it."""
        return ", ".join(f"{key} {value}" for key, value in self.change)

    def apply(self, settings: Settings, seed: int) -> Settings:
        """Return the setting with the change, from a seed."""
        options = dataclasses.asdict(settings.objective)  # type: ignore[call-overload]
        core = {key: value for key, value in vars(settings).items() if key != "objective"}
        changes = dict(self.change)
        if "closed_world" in changes:
            core["prior_score"] = None
        return make_settings(**{**core, **options, **changes, "objective": settings.objective.name, "seed": seed})


def variants(paper: Paper, cell: Cell) -> list[Variant]:
    """Return the changes that apply to a row."""
    return [
        Variant(group["name"], tuple(change.items()))
        for group in paper.ablations
        if cell.objective in group["objectives"]
        for change in group["changes"]
    ]


def ablate(
    paper: Paper, cell: Cell, graph: KnowledgeGraph, lab: Lab, groups: Sequence[str] = (),
    progress: Callable[[int], Any] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train every variant of a row from every seed; return the rows of the index."""
    rule, chosen = paper.rule_of(cell), chosen_records(paper, cell, dataclasses.replace(lab, experiment="table2"))
    if not chosen:
        raise InputError(
            f"{cell.name} on {cell.dataset} has no chosen setting yet; run `reproduce table2` for it first"
        )
    base = settings_of_record(cell, chosen[0], rule.batch_size(len(graph.train.facts)))
    wanted = [variant for variant in variants(paper, cell) if not groups or variant.group in groups]
    settings = [variant.apply(base, seed) for variant in wanted for seed in rule.seeds]
    measure = validation_measure(graph, rule.valid_facts, rule.monitor)
    outcomes = train_many(graph, settings, rule.second_round(), measure, lab.device, progress)
    rows = []
    for place, outcome in enumerate(outcomes):
        variant = wanted[place // len(rule.seeds)]
        rows += _rows(cell, variant, outcome, graph, lab)
    return rows


def _rows(cell: Cell, variant: Variant, outcome: Outcome, graph: KnowledgeGraph, lab: Lab) -> list[dict[str, Any]]:
    about = about_row(cell, outcome, graph, lab, selected_on="valid")
    about |= {"setting": f"{variant.group}: {variant.name}; {about['setting']}"}
    means = mean_reached(outcome.model)
    rows = [about | {"metric": name, "value": value, "split": "all triples"} for name, value in means.items()]
    if outcome.diverged and not outcome.best_epoch:
        return rows
    kept: Kept = keep_result(graph, outcome.model, about)
    wanted = ("mrr", "hits@1", "nll", "brier", "auc", "nll_platt", "brier_platt")
    return rows + [
        row
        for row in kept.rows()
        if row["metric"] in wanted
        and row.get("filter", "filtered") == "filtered"
        and row.get("ties", "realistic") == "realistic"
        and row.get("side", "both") == "both"
    ]


@torch.no_grad()
def mean_reached(model: BilinearModel) -> dict[str, float]:
    """Return the mean log-odds of all triples (exact, Theorem 1) and their mean probability (sampled)."""
    model.eval()
    device = model.entities.device
    draw = torch.Generator(device).manual_seed(0)

    def ids(n: int) -> torch.Tensor:
        return torch.randint(n, (SAMPLED,), generator=draw, device=device)

    total = torch.zeros((), dtype=torch.float64, device=device)
    triples = torch.stack([ids(model.n_entities), ids(model.n_relations), ids(model.n_entities)], dim=1)
    for piece in triples.split(100_000):
        total += torch.sigmoid(model.logit(*piece.unbind(1))).double().sum()
    return {
        "mean_logit": float(model.mean_score()) + model.prior_score,
        "mean_probability": float(total) / SAMPLED,
    }
