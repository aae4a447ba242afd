"""Statistics of all |E|²|R| scores by relation, and how many new facts to expect.

Means and standard deviations are exact, from the rows' first and second moments, without enumerating triples. How
many triples lie above a threshold is no moment: it is estimated from a sample, with an interval, beside the guess
that a relation's scores are normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.inference.discovery import is_new, pairs_of
from staypositive.inference.predictor import Predictor
from staypositive.models import RowMoments, logit
from staypositive.probability import FeatureCalibrator
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 2**24  # scores held at once while enumerating
DRAWN = 50_000  # triples drawn at once
Progress = Callable[[int], Any]


class Above(NamedTuple):
    estimate: float
    low: float
    high: float


def wilson(hits: int, sampled: int, population: float) -> Above:
    """Return the count to expect in a population, from a sample's, with Wilson's 95% interval."""
    from scipy.stats import binomtest

    interval = binomtest(hits, sampled).proportion_ci(method="wilson")
    return Above(hits / sampled * population, interval.low * population, interval.high * population)


def mean_and_std(predictor: Predictor) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of all |E|² scores of each relation, in closed form."""
    with torch.no_grad():
        every = RowMoments.of(predictor.scorer.entity_rows)
        found = [predictor.scorer.moments(r, every, every) for r in range(len(predictor.graph.relations))]
    return [float(m.mean) for m in found], [math.sqrt(max(float(m.variance), 0.0)) for m in found]


@checked
def score_statistics(
    predictor: Predictor,
    *,
    threshold: float = 0.5,
    prior: float | None = None,
    samples: int = 100_000,
    exact: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return one row per relation, and one for all: facts, mean, std, and triples of at least that probability.

    `samples` triples of each relation are drawn to estimate how many lie above; `exact` counts them all as well.
    With a calibrator that looks at null distributions, a probability is not one score for all triples: `normal` is
    left out then, and `exact` is refused.
    """
    import pandas as pd
    from scipy.stats import norm

    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    if not 0 < threshold < 1:
        raise InputError(f"a threshold is a probability between 0 and 1, got {threshold}")
    graph = predictor.graph
    by_score = exact or not isinstance(predictor.calibrator, FeatureCalibrator)
    limit, aim = predictor.score_at(threshold, prior) if by_score else math.nan, logit(threshold)
    every, facts = len(graph.entities) ** 2, np.bincount(graph.facts()[:, 1], minlength=len(graph.relations))
    draw = torch.Generator(predictor.scorer.device).manual_seed(seed)
    rows: list[dict[str, Any]] = []
    for relation, (mean, std) in enumerate(zip(*mean_and_std(predictor), strict=True)):
        row = {"relation": graph.relations[relation], "facts": int(facts[relation]), "triples": every}
        row |= {"mean": mean, "std": std}
        if by_score:
            row["normal"] = every * float(norm.sf(limit, mean, std or 1e-12))
        hits = _hits_in_sample(predictor, relation, aim, prior, samples, draw)
        row |= dict(zip(("sampled", "low", "high"), wilson(hits, samples, every), strict=True))
        if exact:
            row["exact"] = _count_above(predictor, relation, limit)
        rows.append(row)
        if progress is not None:
            progress(1)
    return pd.DataFrame([*rows, _total(rows)])


def _hits_in_sample(
    predictor: Predictor, relation: int, aim: float, prior: float | None, samples: int, draw: torch.Generator
) -> int:
    hits = 0
    for start in range(0, samples, DRAWN):
        size = (2, min(DRAWN, samples - start))
        heads, tails = torch.randint(len(predictor.graph.entities), size, generator=draw, device=draw.device)
        triples = torch.stack([heads, torch.full_like(heads, relation), tails], dim=1).cpu().numpy()
        hits += int((predictor.triple_logits(triples, prior=prior) >= aim).sum())
    return hits


@torch.no_grad()
def _count_above(predictor: Predictor, relation: int, limit: float) -> int:
    scorer, n = predictor.scorer, len(predictor.graph.entities)
    pieces = torch.arange(n, device=scorer.device).split(max(1, CHUNK // n))
    return sum(int(torch.count_nonzero(scorer.pairs(heads, relation, None) >= limit)) for heads in pieces)


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the relations up; the variance of all is that within relations and that between their means."""
    means, stds = (np.array([row[key] for row in rows]) for key in ("mean", "std"))
    total: dict[str, Any] = {"relation": "(all)", "mean": float(means.mean())}
    total["std"] = float(np.sqrt((stds**2).mean() + means.var()))
    for column in (name for name in ("facts", "triples", "normal", "sampled", "exact") if name in rows[0]):
        total[column] = sum(row[column] for row in rows)
    # Estimates of relations are independent: half-widths add up as squares.
    for end, side in (("low", -1), ("high", 1)):
        half = math.sqrt(sum((row[end] - row["sampled"]) ** 2 for row in rows))
        total[end] = max(0.0, total["sampled"] + side * half)
    return total


@dataclass(frozen=True)
class ExpectedCount:
    """New facts to expect of one relation, with the standard error of the estimate: 0 where all pairs were judged."""

    relation: int
    pairs: int
    facts: int
    prior: float
    new: float
    error: float


@checked
def expected_counts(
    predictor: Predictor,
    *,
    prior: float | None = None,
    samples: int = 20_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[ExpectedCount]:
    """Return how many new facts to expect of each relation, over the heads and tails that its training facts have.

    It is the sum of the probabilities of all pairs that are no facts. By default a relation's prior is the share of
    facts among its pairs: the graph's own density, which takes every fact that is not stated for rare. At most
    `samples` pairs of a relation are judged: all of them where they are no more, else that many drawn ones. An entity
    is not paired with itself, unless the relation has such facts.
    """
    if samples < 2:
        raise InputError(f"samples must be at least 2, got {samples}")
    draw = np.random.default_rng(seed)
    found = []
    for relation in range(len(predictor.graph.relations)):
        found.append(_expected_count(predictor, relation, prior, samples, draw))
        if progress is not None:
            progress(1)
    return found


def _expected_count(
    predictor: Predictor, relation: int, prior: float | None, samples: int, draw: np.random.Generator
) -> ExpectedCount:
    sides = pairs_of(predictor.graph, relation, False, torch.device("cpu"))
    domain, span, loops = sides[0].numpy(), sides[1].numpy(), sides[2]
    pairs = len(domain) * len(span)
    known = predictor.graph.facts()
    known = np.unique(known[known[:, 1] == relation], axis=0)
    facts = int((np.isin(known[:, 0], domain) & np.isin(known[:, 2], span)).sum())
    assumed = (facts + 0.5) / (pairs + 1) if prior is None else prior
    if pairs == 0:
        return ExpectedCount(relation, 0, 0, assumed, 0.0, 0.0)
    whole = pairs <= samples
    heads, tails = np.divmod(np.arange(pairs) if whole else draw.integers(pairs, size=samples), len(span))
    triples = np.column_stack([domain[heads], np.full(len(heads), relation), span[tails]])
    chances = sigmoid(predictor.triple_logits(triples, prior=assumed))
    values = np.where(is_new(predictor, triples, loops), chances, 0.0)
    error = 0.0 if whole else pairs * float(values.std(ddof=1)) / len(values) ** 0.5
    return ExpectedCount(relation, pairs, facts, assumed, pairs * float(values.mean()), error)
