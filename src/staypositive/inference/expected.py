"""How many new facts a graph lets expect: the sum of the probabilities of all pairs that are no facts.

A probability needs a prior. Where none is given, a relation's is the share of facts among the pairs of its domain and
range: the graph's own density, which takes every fact that is not stated for rare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.inference.predictor import Predictor
from staypositive.typed import checked


@dataclass(frozen=True)
class ExpectedNew:
    """New facts to expect of one relation, with the standard error of the estimate: 0 where all pairs were judged."""

    relation: int
    pairs: int
    facts: int
    prior: float
    new: float
    error: float


@checked
def expect_new(
    predictor: Predictor,
    *,
    prior: float | None = None,
    samples: int = 20_000,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> list[ExpectedNew]:
    """Return what to expect of each relation, over the heads and tails that its training facts have.

    At most `samples` pairs of a relation are judged: all of them where they are no more, else as many drawn ones. An
    entity is not paired with itself, unless the relation has such facts.
    """
    if samples < 2:
        raise InputError(f"samples must be at least 2, got {samples}")
    draw = np.random.default_rng(seed)
    found = []
    for relation in range(len(predictor.graph.relations)):
        found.append(_of_relation(predictor, relation, prior, samples, draw))
        if progress is not None:
            progress(1)
    return found


def _of_relation(
    predictor: Predictor, relation: int, prior: float | None, samples: int, draw: np.random.Generator
) -> ExpectedNew:
    graph = predictor.graph
    trained = graph.train.facts[graph.train.facts[:, 1] == relation]
    domain, span = np.unique(trained[:, 0]), np.unique(trained[:, 2])
    pairs = len(domain) * len(span)
    known = graph.facts()
    known = np.unique(known[known[:, 1] == relation], axis=0)
    facts = int((np.isin(known[:, 0], domain) & np.isin(known[:, 2], span)).sum())
    assumed = (facts + 0.5) / (pairs + 1) if prior is None else prior
    if pairs == 0:
        return ExpectedNew(relation, 0, 0, assumed, 0.0, 0.0)
    whole = pairs <= samples
    heads, tails = np.divmod(np.arange(pairs) if whole else draw.integers(pairs, size=samples), len(span))
    triples = np.column_stack([domain[heads], np.full(len(heads), relation), span[tails]])
    is_new = ~predictor.is_known(triples)
    if not (trained[:, 0] == trained[:, 2]).any():
        is_new &= triples[:, 0] != triples[:, 2]
    values = np.where(is_new, sigmoid(predictor.triple_logits(triples, prior=assumed)), 0.0)
    error = 0.0 if whole else pairs * float(values.std(ddof=1)) / len(values) ** 0.5
    return ExpectedNew(relation, pairs, facts, assumed, pairs * float(values.mean()), error)
