"""New triples over the whole graph that are likely, found relation by relation without ever holding |E|² scores.

Heads come from a relation's training domain and tails from its range, unless all entities are wanted. A calibrator of
logits turns the wanted probability into a score, and only pairs above it are kept; one that looks at the background
judges each pair, in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.calibration import FeatureCalibrator, Features
from staypositive.errors import InputError
from staypositive.graph import KnowledgeGraph
from staypositive.inference.predictor import Predictor
from staypositive.models import logit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PIECE = 2**22
"""Pairs judged at once."""


@dataclass(frozen=True)
class Discovery:
    """New triples of one relation, by ids, most likely first, with their log-odds."""

    relation: int
    triples: Ints
    logits: Floats

    @classmethod
    def nothing(cls, relation: int) -> Discovery:
        """Return that nothing was found yet."""
        return cls(relation, np.empty((0, 3), dtype=np.int64), np.empty(0))

    def joined(self, triples: Ints, logits: Floats, most: int | None) -> Discovery:
        """Return the best of what was found before and now, most likely first."""
        triples, logits = np.concatenate([self.triples, triples]), np.concatenate([self.logits, logits])
        order = np.argsort(-logits, kind="stable")[:most]
        return Discovery(self.relation, triples[order], logits[order])


def discover(
    predictor: Predictor,
    *,
    min_probability: float = 0.9,
    prior: float | None = None,
    relations: Iterable[int] | None = None,
    everywhere: bool = False,
    most: int | None = None,
    piece: int = PIECE,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[Discovery]:
    """Yield, for each relation in turn, the triples that are no facts and reach the probability.

    `everywhere` takes all entities for heads and tails, rather than those that training facts have there. An entity
    is not paired with itself, unless the relation has such facts. `most` keeps so many of each relation, the most
    likely, and never holds more than that and a piece.
    """
    if not 0 < min_probability < 1:
        raise InputError(f"min_probability is between 0 and 1, got {min_probability}")
    graph = predictor.graph
    for relation in range(len(graph.relations)) if relations is None else relations:
        heads, tails, loops = pairs_of(graph, relation, everywhere, predictor.scorer.device)
        best = Discovery.nothing(relation)
        for part in heads.split(max(1, piece // max(1, len(tails)))) if len(tails) else ():
            triples, logits = _piece(predictor, part, relation, tails, min_probability, prior)
            keep = ~predictor.is_known(triples) & (loops | (triples[:, 0] != triples[:, 2]))
            best = best.joined(triples[keep], logits[keep], most)
        yield best
        if progress is not None:
            progress(1)


def pairs_of(
    graph: KnowledgeGraph, relation: int, everywhere: bool, device: torch.device
) -> tuple[Tensor, Tensor, bool]:
    """Return the heads and tails to pair for a relation, and whether it has facts of an entity about itself."""
    facts = graph.train.facts[graph.train.facts[:, 1] == relation]
    sides = (np.arange(len(graph.entities)),) * 2 if everywhere else (np.unique(facts[:, 0]), np.unique(facts[:, 2]))
    heads, tails = (torch.as_tensor(side, device=device) for side in sides)
    return heads, tails, bool((facts[:, 0] == facts[:, 2]).any())


@torch.no_grad()
def _piece(
    predictor: Predictor, heads: Tensor, relation: int, tails: Tensor, probability: float, prior: float | None
) -> tuple[Ints, Floats]:
    """Return the pairs of heads × tails that reach the probability, and their log-odds."""
    scorer = predictor.scorer
    if isinstance(predictor.calibrator, FeatureCalibrator):
        features = _features(predictor, heads, relation, tails)
        logits = predictor.at_prior(predictor.calibrator.apply_features(features), prior)
        chosen = np.flatnonzero(logits >= logit(probability))
        rows, columns = np.divmod(chosen, len(tails))
        values = logits[chosen]
    else:
        queries = scorer.tail_queries(heads, torch.full_like(heads, relation))
        scores = queries @ scorer.entity_rows[tails].T
        picked = torch.nonzero(scores >= predictor.score_at(probability, prior))
        rows, columns = picked.cpu().numpy().T
        values = predictor.logits(scores[picked[:, 0], picked[:, 1]].double().cpu().numpy(), prior)
    triples = np.column_stack(
        [heads.cpu().numpy()[rows], np.full(len(rows), relation, dtype=np.int64), tails.cpu().numpy()[columns]]
    )
    return triples, values


def _features(predictor: Predictor, heads: Tensor, relation: int, tails: Tensor) -> Features:
    """Return the features of all pairs of heads × tails, tails changing fastest."""
    background, scorer = predictor.background, predictor.scorer.asked()
    rows = scorer.entity_rows
    to_tails = scorer.tail_queries(heads, torch.full_like(heads, relation))
    to_heads = scorer.head_queries(torch.full_like(tails, relation), tails)
    tail_scores, head_scores = to_tails @ rows[tails].T, to_heads @ rows[heads].T
    tail_z = background.moments("tail", relation).z_scores(to_tails, tail_scores)
    head_z = background.moments("head", relation).z_scores(to_heads, head_scores)
    n = len(heads) * len(tails)

    def flat(part: Tensor) -> Floats:
        values: Floats = part.double().cpu().numpy().reshape(-1)
        return values

    return Features(
        np.full(n, relation), flat(tail_scores), flat(head_scores.T), flat(tail_z), flat(head_z.T),
        np.full(n, background.correlation(relation)),
    )  # fmt: skip
