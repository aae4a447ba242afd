"""How far stated probabilities of unknown triples hold, once hidden facts are uncovered: stated against true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.evaluation.classification import Floats, sigmoid

EDGES = (0.0, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TOPS = (100, 1000)
ENOUGH = 5  # hidden facts from which a relation's sum is compared with their number


def discovery_metrics(
    log_odds: Floats,
    weights: Floats,
    relations: NDArray[np.int64],
    is_hidden: NDArray[np.bool_],
    hidden_log_odds: Floats,
    hidden_relations: NDArray[np.int64],
) -> dict[str, Any]:
    """Return how stated probabilities of unknown triples compare with hidden facts among them.

    The first four describe unknown triples, of which each stands for as many as its weight says; the last two are
    those of all hidden facts. A fact that is neither known nor hidden counts as false: `true` is a lower bound.
    `tops` are the best 100, 1,000 and as many as are hidden; `bins` have equal ends of probability; `relations`
    is the median over relations of the sum of probabilities per hidden fact, with the tenth and the ninetieth
    percentile; `log_loss` is that of all unknown triples, per hidden fact.
    """
    stated, found, hidden = sigmoid(log_odds), weights * is_hidden, len(hidden_log_odds)
    return {
        "hidden": hidden,
        "sum": float((weights * stated).sum()),
        "log_loss": _log_loss(log_odds, weights, hidden_log_odds),
        "tops": [_top(size, stated, weights, found) for size in (*TOPS, hidden)],
        "bins": _bins(stated, weights, sigmoid(hidden_log_odds)),
        "relations": _by_relation(weights * stated, relations, hidden_relations),
    }


def _log_loss(log_odds: Floats, weights: Floats, hidden_log_odds: Floats) -> float:
    """Return −Σ ln(1 − p) of all that is unknown, with ln p in its place for hidden facts."""
    if_false = float((weights * np.logaddexp(0, log_odds)).sum())
    return (if_false - float(hidden_log_odds.sum())) / len(hidden_log_odds)


def _top(size: int, stated: Floats, weights: Floats, found: Floats) -> dict[str, float]:
    order = np.argsort(-stated, kind="stable")
    reached = np.cumsum(weights[order])
    best = order[: int(np.searchsorted(reached, size)) + 1]
    total = float(weights[best].sum())
    return {
        "triples": size,
        "stated": float((weights[best] * stated[best]).sum()) / total,
        "true": float(found[best].sum()) / total,
    }


def _bins(stated: Floats, weights: Floats, hidden: Floats) -> list[dict[str, float]]:
    """Return bins of probability: their triples, the mean that is stated, the share that is true, its interval."""
    from scipy.stats import beta

    def place(values: Floats) -> NDArray[np.int64]:
        return np.digitize(values, EDGES[1:-1])

    count, total = (np.bincount(place(stated), own, len(EDGES) - 1) for own in (weights, weights * stated))
    true = np.bincount(place(hidden), minlength=len(EDGES) - 1)
    bins = []
    for low, n, mean, facts in zip(EDGES[:-1], count.tolist(), total.tolist(), true.tolist(), strict=True):
        if n > 0:
            own = {"from": low, "triples": n, "stated": mean / n, "true": min(facts / n, 1.0)}
            shape = facts + 0.5, max(n - facts, 0) + 0.5  # of Jeffreys' interval
            bins.append(own | {"low": float(beta.ppf(0.025, *shape)), "high": float(beta.ppf(0.975, *shape))})
    return bins


def _by_relation(sums: Floats, relations: NDArray[np.int64], hidden_relations: NDArray[np.int64]) -> dict[str, float]:
    hidden = np.bincount(hidden_relations)
    enough = np.flatnonzero(hidden >= ENOUGH)
    if not len(enough):
        return {}
    ratios = np.bincount(relations, sums, len(hidden))[enough] / hidden[enough]
    low, median, high = np.quantile(ratios, (0.1, 0.5, 0.9)).tolist()
    return {"relations": len(enough), "median": median, "low": low, "high": high}
