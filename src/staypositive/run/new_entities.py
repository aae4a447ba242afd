"""From the rows of one run to those of a grown graph: known labels keep theirs, new entities are folded in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import InputError, SettingError
from staypositive.graph import Facts, KnowledgeGraph, Vocabulary, add_facts
from staypositive.inference.fold_in import FoldIn, mean_fact_scores
from staypositive.models import BilinearModel, Ensemble, build_model
from staypositive.run.provenance import of_graph

if TYPE_CHECKING:
    from staypositive.run.run import Run

RIDGE = 0.01
"""The ridge unless said otherwise; chosen on geo, by stay-positive."""
UNOBSERVED_WEIGHT = 3e-4
"""The weight w0 of an unobserved triple for objectives that state no `weight_per_triple`; chosen on geo too."""
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CarriedOver:
    """How the entities of a grown graph got their rows; masks over its entities."""

    kept: Mask
    """Those that the earlier run's training facts have."""
    folded_in: Mask

    def counts(self) -> dict[str, int]:
        kept, folded = int(self.kept.sum()), int(self.folded_in.sum())
        return {"kept": kept, "folded_in": folded, "fresh": len(self.kept) - kept - folded}


def grown_run(
    run: Run, facts: Facts, unobserved_weight: float | None = None, ridge: float = RIDGE, header: bool | None = None
) -> Run:
    """Return a run with more facts and new entities; see `Run.with_entities`."""
    require_free_rows(run.model)
    graph = add_facts(run.graph, facts, header)
    model = build_model(run.settings.model, **run.model.settings() | {"n_entities": len(graph.entities)})
    model.to(run.model.entities)
    carried = carry_over(run, graph, model, unobserved_weight, ridge)
    require_reached(graph, carried)
    model.eval()
    more = {
        "facts": len(graph.train) - len(run.graph.train),
        "entities": len(graph.entities) - len(run.graph.entities),
        "source": graph.sources[-1].name,
    }
    origin = run.provenance | of_graph(graph) | {"added": [*run.provenance.get("added", []), more]}
    return replace(run, graph=graph, model=model, provenance=origin, metrics={}, hashes={})


def new_fold_in(run: Run, unobserved_weight: float | None = None, ridge: float = RIDGE) -> FoldIn:
    """Prepare to fold entities in, as the run was trained.

    Where its objective states no score for facts to reach, the target is the mean score of the relation's facts.
    """
    facts = torch.as_tensor(run.graph.train.facts, device=run.model.entities.device)
    objective = run.settings.objective
    targets = mean_fact_scores(run.model, facts)
    if objective.target_score is not None:
        targets = torch.full_like(targets, objective.target_score)
    stated = (unobserved_weight, objective.weight_per_triple, UNOBSERVED_WEIGHT)
    weight = next(weight for weight in stated if weight is not None)
    return FoldIn(run.model, facts, targets, unobserved_weight=weight, ridge=ridge)


@torch.no_grad()
def carry_over(
    run: Run,
    graph: KnowledgeGraph,
    model: BilinearModel,
    unobserved_weight: float | None = None,
    ridge: float = RIDGE,
) -> CarriedOver:
    """Give a model of a grown graph the rows of a run, by label, and fold in entities that the run had no facts of.

    An entity is solved from its facts with entities that have a row; those that it leads to come in the next round.
    What no fact leads to, and new relations, stay as they are in the model.
    """
    require_alike(run.model, model)
    entities = _places(run.graph.entities, graph.entities)
    relations = _places(run.graph.relations, graph.relations)
    _copy_rows(run.model, model, entities, relations)
    kept = (entities >= 0) & run.graph.seen_entities[entities]
    facts = graph.train.facts[relations[graph.train.facts[:, 1]] >= 0]
    facts[:, 1] = relations[facts[:, 1]]
    rounds = _rounds(facts, kept) if model.rows_are_free else []
    if rounds:
        fold_in = new_fold_in(run, unobserved_weight, ridge)
        rows = model.entity_rows().to(fold_in.rows)
        for facts_of in rounds:
            for entity, own in facts_of.items():
                solved = fold_in.row(entity, torch.as_tensor(own, device=rows.device), rows)
                model.entities[entity] = model.unbounded(solved).to(model.entities)
                rows[entity] = model.form_entity_rows(model.entities[entity]).to(rows)
    folded = np.zeros_like(kept)
    folded[[entity for facts_of in rounds for entity in facts_of]] = True
    return CarriedOver(kept, folded)


def require_alike(old: BilinearModel, new: BilinearModel) -> None:
    if isinstance(old, Ensemble) and not isinstance(new, Ensemble):
        raise SettingError("an ensemble is not trained on; start from one of its members")
    free = ("n_entities", "n_relations", "prior_score", "dropout")
    before, after = old.settings(), new.settings()
    if type(old) is not type(new) or getattr(old, "table", None) != getattr(new, "table", None):
        raise SettingError("a start from an earlier run needs the same model; give the one it was trained with")
    for name in before:
        if name not in free and before[name] != after[name]:
            raise SettingError(
                f"a start from an earlier run needs the same {name}: it has {before[name]}, here {after[name]} is set"
            )


def require_free_rows(model: BilinearModel) -> None:
    if model.rows_are_free:
        return
    members = list(model.members) if isinstance(model, Ensemble) else [model]
    name = next(type(member).__name__.lower() for member in members if not member.rows_are_free)
    advice = (
        "join the other runs without it" if isinstance(model, Ensemble) else "start a training from this run instead"
    )
    raise SettingError(f"{name}'s rows are formed from points, and cannot be solved for by least squares; {advice}")


def require_reached(graph: KnowledgeGraph, carried: CarriedOver) -> None:
    """Refuse entities that have facts, and none that leads to an entity with a row."""
    lost = np.flatnonzero(graph.seen_entities & ~carried.kept & ~carried.folded_in)
    if len(lost):
        raise InputError(
            f"no fact of {graph.entities[int(lost[0])]!r} leads to an entity that the model knows, so it has no row"
            + (f" (nor {len(lost) - 1:,} others)" if len(lost) > 1 else "")
            + "; add one, or train again"
        )


def _places(old: Vocabulary, new: Vocabulary) -> Ints:
    """Return the old id of each new label, −1 for none."""
    return np.array([old.id(label) if label in old else -1 for label in new], dtype=np.int64)


def _copy_rows(old: BilinearModel, new: BilinearModel, entities: Ints, relations: Ints) -> None:
    common = np.flatnonzero(entities >= 0)
    new.entities[common] = old.entities[entities[common]].to(new.entities)
    common = np.flatnonzero(relations >= 0)
    for block in range(1 + new.reciprocal):
        own, theirs = common + block * new.n_relations, relations[common] + block * old.n_relations
        new.relations[own] = old.relations[theirs].to(new.relations)
    for name, table in new.shared().items():
        table.copy_(old.shared()[name])


def _rounds(facts: Ints, has_row: Mask) -> list[dict[int, Ints]]:
    """Return, round by round, the entities that can be solved and the facts to solve each from."""
    has_row = has_row.copy()
    rounds: list[dict[int, Ints]] = []
    while True:
        heads, tails = facts[:, 0], facts[:, 2]
        ready = has_row[heads] != has_row[tails]
        if not ready.any():
            return rounds
        new = np.where(has_row[heads], tails, heads)[ready]
        order = np.argsort(new, kind="stable")
        entities, starts = np.unique(new[order], return_index=True)
        parts = np.split(facts[ready][order], starts[1:])
        rounds.append(dict(zip(entities.tolist(), parts, strict=True)))
        has_row[entities] = True
