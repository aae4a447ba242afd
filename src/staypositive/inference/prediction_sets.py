"""prediction sets by label, and how well they keep their promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.evaluation import DEFAULT_MEMORY, AnswerIndex
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, encode_query
from staypositive.probability import Conformal, within

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]


def prediction_set(
    predictor: Predictor,
    conformal: Conformal,
    query: Query,
    coverage: float,
    *,
    per_relation: bool = True,
    prior: float | None = None,
) -> pd.DataFrame:
    """Return new answers of (h, r, ?) or (?, r, t) that hold the true one with probability `coverage`.

    They come most likely first, in the order of `inference.ordering`.

    Facts of any split are left out: the promise is about an answer that is not known yet.
    """
    if query.missing not in ("head", "tail"):
        raise InputError("prediction sets are for an open head or tail: (h, r, ?) or (?, r, t)")
    triple = np.array([encode_query(query, predictor.graph)], dtype=np.int64)
    side, relation = query.missing, int(triple[0, 1])
    limit = conformal.threshold(side, relation, coverage, per_relation)
    asked = torch.as_tensor(triple, device=predictor.scorer.device)
    strange = predictor.nonconformity.of_all(asked, side)[0].cpu().numpy()
    found, scores = predictor.find([query], top=len(strange), exclude_known=True)
    inside = within(strange, limit)[found[:, 2 if side == "head" else 4]]
    return predictor.table(found[inside], scores[inside], prior)[[side, "probability", "score"]]


def entry_coverages(
    predictor: Predictor, conformal: Conformal, query: Query, *, per_relation: bool = True
) -> NDArray[np.float64]:
    """Return the coverage above which the prediction set of a query holds each entity; +inf for known answers.

    One array thus stands for the sets of every coverage: `prediction_set` at c is where it lies below c.
    """
    if query.missing not in ("head", "tail"):
        raise InputError("prediction sets are for an open head or tail: (h, r, ?) or (?, r, t)")
    triple = np.array([encode_query(query, predictor.graph)], dtype=np.int64)
    asked = torch.as_tensor(triple, device=predictor.scorer.device)
    strange = predictor.nonconformity.of_all(asked, query.missing)[0].double().cpu().numpy()
    entries = conformal.entry(query.missing, int(triple[0, 1]), strange, per_relation)
    answers = np.repeat(triple, len(entries), axis=0)
    answers[:, 0 if query.missing == "head" else 2] = np.arange(len(entries))
    return np.where(predictor.is_known(answers), np.inf, entries)


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
    scorer = predictor.scorer.asked()
    nonconformity = predictor.nonconformity
    n_entities, n_relations = len(predictor.graph.entities), len(predictor.graph.relations)
    asked, filters = (torch.as_tensor(part, device=scorer.device) for part in (facts, known))
    sizes, hits = {}, {}
    for side, given, wanted in (("tail", 0, 2), ("head", 2, 0)):
        answers = AnswerIndex(filters[:, given] * n_relations + filters[:, 1], filters[:, wanted], n_entities)
        by_relation = [conformal.threshold(side, r, coverage, per_relation) for r in range(n_relations)]
        limits = torch.tensor(by_relation, dtype=torch.float64, device=scorer.device)
        parts = []
        for piece in asked.split(max(1, memory // (24 * n_entities))):
            inside = within(nonconformity.of_all(piece, side), limits[piece[:, 1], None])
            rows, others = answers.of(piece[:, given] * n_relations + piece[:, 1])
            own = inside.gather(1, piece[:, [wanted]])[:, 0]
            inside[rows, others] = False
            parts.append(torch.stack([own.long(), inside.sum(1) + own.long()]))
            if progress is not None:
                progress(len(piece))
        hits[side], sizes[side] = torch.cat(parts, dim=1).cpu().numpy()
    hits["both"], sizes["both"] = (np.concatenate(list(part.values())) for part in (hits, sizes))
    return {
        side: {
            "coverage": float(hits[side].mean()),
            "mean_size": float(sizes[side].mean()),
            "median_size": float(np.median(sizes[side])),
            "queries": float(len(hits[side])),
        }
        for side in ("both", "head", "tail")
    }
