"""Prediction sets by label, and how often they hold the true answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from staypositive.errors import InputError
from staypositive.evaluation import DEFAULT_MEMORY, both_sides
from staypositive.inference.ordering import Floats, Ints
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, encode_query
from staypositive.probability import SIDES, Conformal, within

if TYPE_CHECKING:
    import pandas as pd


def prediction_set(
    predictor: Predictor,
    conformal: Conformal,
    query: Query,
    coverage: float,
    *,
    per_relation: bool = True,
) -> pd.DataFrame:
    """Return new answers of (h, r, ?) or (?, r, t) that hold the true one with probability `coverage`, best first.

    Facts of any split are left out: the guarantee is about an answer that is not known yet.
    """
    triple, scores = _nonconformity(predictor, query)
    limit = conformal.threshold(query.missing, int(triple[0, 1]), coverage, per_relation)
    found = predictor.find([query], top=len(scores), exclude_known=True)
    inside = within(scores, limit)[found.rows[:, 2 + SIDES[query.missing]]]
    table = predictor.table(found.select(inside))
    given = [part for part in ("head", "relation", "tail") if part != query.missing]
    return table.drop(columns=["query", "rank", "known", *given])


def entry_coverages(predictor: Predictor, conformal: Conformal, query: Query, *, per_relation: bool = True) -> Floats:
    """Return the coverage above which the prediction set of a query holds each entity; +inf for known answers.

    One array thus stands for the sets of every coverage: `prediction_set` at c is where it lies below c.
    """
    triple, scores = _nonconformity(predictor, query)
    entries = conformal.entry(query.missing, int(triple[0, 1]), scores, per_relation)
    answers = np.repeat(triple, len(entries), axis=0)
    answers[:, SIDES[query.missing]] = np.arange(len(entries))
    return np.where(predictor.is_known(answers), np.inf, entries)


def _nonconformity(predictor: Predictor, query: Query) -> tuple[Ints, Floats]:
    """Return a query's ids, shape (1, 3), and the nonconformity score of every entity as its answer."""
    if query.missing not in SIDES:
        raise InputError("prediction sets are for an open head or tail: (h, r, ?) or (?, r, t)")
    triple = np.array([encode_query(query, predictor.graph)], dtype=np.int64)
    asked = torch.as_tensor(triple, device=predictor.scorer.device)
    return triple, predictor.nonconformity.of_all(asked, query.missing)[0].double().cpu().numpy()


def measure_prediction_sets(
    predictor: Predictor,
    conformal: Conformal,
    facts: Ints,
    known: Ints,
    coverage: float,
    *,
    per_relation: bool = True,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int], Any] | None = None,
) -> dict[str, dict[str, float]]:
    """Return how often sets hold the true answer of facts, and their mean and median size, by side and for both.

    Other known answers are left out of the sets, as in filtered ranking.
    """
    graph, device = predictor.graph, predictor.scorer.device
    n_entities, limits = len(graph.entities), {}
    for side in SIDES:
        own = [conformal.threshold(side, r, coverage, per_relation) for r in range(len(graph.relations))]
        limits[side] = torch.tensor(own, dtype=torch.float64, device=device)
    parts: dict[str, list[Ints]] = {side: [] for side in SIDES}
    for piece, answers, is_tail in both_sides(facts, known, n_entities, device, max(1, memory // (24 * n_entities))):
        side = "tail" if is_tail else "head"
        inside = within(predictor.nonconformity.of_all(piece, side), limits[side][piece[:, 1], None])
        is_in = inside.gather(1, piece[:, [SIDES[side]]])[:, 0]
        inside[answers.of(piece)] = False
        parts[side].append(torch.stack([is_in.long(), inside.sum(1) + is_in.long()]).cpu().numpy())
        if progress is not None:
            progress(len(piece))
    found = {"both": np.concatenate([*parts["tail"], *parts["head"]], axis=1)}
    found |= {side: np.concatenate(parts[side], axis=1) for side in ("head", "tail")}
    return {
        side: {
            "coverage": float(hits.mean()),
            "mean_size": float(sizes.mean()),
            "median_size": float(np.median(sizes)),
            "queries": float(len(hits)),
        }
        for side, (hits, sizes) in found.items()
    }
