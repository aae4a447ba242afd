"""A census of all |E|²|R| scores: exact means and deviations by relation without enumerating, and how many are high.

Means and deviations come from the rows' first and second moments. How many triples lie above a threshold is no
moment: it is estimated from a sample, with an interval, beside the guess that a relation's scores are normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from staypositive.errors import InputError
from staypositive.inference.predictor import Predictor
from staypositive.models import RowMoments, logit, score_moments
from staypositive.probability import FeatureCalibrator
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd

Z_95 = 1.959963984540054
CHUNK = 2**24
"""Scores held at once while enumerating."""


@dataclass(frozen=True)
class Above:
    """How many of some triples lie above a threshold: estimate and 95% interval."""

    estimate: float
    low: float
    high: float


def wilson(hits: int, sampled: int, population: float) -> Above:
    """Return how many of a population a sample lets expect, with Wilson's 95% interval."""
    share, square = hits / sampled, Z_95**2
    centre = (share + square / (2 * sampled)) / (1 + square / sampled)
    half = Z_95 * math.sqrt(share * (1 - share) / sampled + square / (4 * sampled**2)) / (1 + square / sampled)
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    return Above(share * population, low * population, min(1.0, centre + half) * population)


@checked
def take_census(
    predictor: Predictor,
    *,
    threshold: float = 0.5,
    prior: float | None = None,
    samples: int = 100_000,
    exact: bool = False,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> pd.DataFrame:
    """Return one row a relation, and one for all: facts, mean, deviation, and triples of at least that probability.

    `samples` triples of each relation are drawn to estimate how many lie above; `exact` counts them all as well.
    With a calibrator that looks at the background, a probability is not one score for all triples: `normal` is left
    out then, and `exact` is refused.
    """
    import pandas as pd
    from scipy.stats import norm

    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    if not 0 < threshold < 1:
        raise InputError(f"a threshold is a probability between 0 and 1, got {threshold}")
    graph, scorer = predictor.graph, predictor.scorer
    by_score = exact or not isinstance(predictor.calibrator, FeatureCalibrator)
    limit = predictor.score_at(threshold, prior) if by_score else math.nan
    aim = logit(threshold)
    n, relations = len(graph.entities), len(graph.relations)
    facts = np.bincount(graph.facts()[:, 1], minlength=relations)
    draw = torch.Generator(scorer.device).manual_seed(seed)
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        moments = RowMoments.of(scorer.entity_rows)
        for relation in range(relations):
            found = score_moments(*scorer.forms(relation), moments, moments)
            mean, deviation = float(found.mean), math.sqrt(max(float(found.variance), 0.0))
            sampled = wilson(_sampled(predictor, relation, aim, prior, samples, draw), samples, n * n)
            row = {
                "relation": graph.relations[relation], "facts": int(facts[relation]), "triples": n * n, "mean": mean,
                "deviation": deviation,
            }  # fmt: skip
            if by_score:
                row["normal"] = n * n * float(norm.sf(limit, mean, deviation or 1e-12))
            row |= {"sampled": sampled.estimate, "low": sampled.low, "high": sampled.high}
            if exact:
                row["exact"] = _counted(predictor, relation, limit)
            rows.append(row)
            if progress is not None:
                progress(1)
    rows.append(_total(rows))
    return pd.DataFrame(rows)


def _sampled(
    predictor: Predictor, relation: int, aim: float, prior: float | None, samples: int, draw: torch.Generator
) -> int:
    """Return how many of some drawn triples of a relation have at least these log-odds."""
    scorer, n = predictor.scorer, len(predictor.graph.entities)
    hits = 0
    for start in range(0, samples, 50_000):
        count = min(50_000, samples - start)
        heads, tails = torch.randint(n, (2, count), generator=draw, device=scorer.device)
        triples = torch.stack([heads, torch.full_like(heads, relation), tails], dim=1).cpu().numpy()
        hits += int((predictor.triple_logits(triples, prior=prior) >= aim).sum())
    return hits


def _counted(predictor: Predictor, relation: int, limit: float) -> int:
    """Return how many of all triples of a relation score at least the limit, by enumeration."""
    scorer, n = predictor.scorer, len(predictor.graph.entities)
    total = 0
    for heads in torch.arange(n, device=scorer.device).split(max(1, CHUNK // n)):
        total += int(torch.count_nonzero(scorer.tails(heads, torch.full_like(heads, relation)) >= limit))
    return total


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the relations up; the variance of all is that within relations and that between their means."""
    means, deviations = (np.array([row[key] for row in rows]) for key in ("mean", "deviation"))
    total: dict[str, Any] = {"relation": "(all)", "mean": float(means.mean())}
    total["deviation"] = float(np.sqrt((deviations**2).mean() + means.var()))
    for column in (name for name in ("facts", "triples", "normal", "sampled", "exact") if name in rows[0]):
        total[column] = sum(row[column] for row in rows)
    # Estimates of relations are independent: half-widths add up as squares.
    for end, side in (("low", -1), ("high", 1)):
        half = math.sqrt(sum((row[end] - row["sampled"]) ** 2 for row in rows))
        total[end] = max(0.0, total["sampled"] + side * half)
    return total
