"""Logistic regression of labelled triples on where their scores lie in their queries' null distributions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from staypositive.probability.calibrators import FeatureCalibrator, Truth
from staypositive.probability.null_distribution import Features, Floats

ENOUGH = 50  # labelled triples from which a relation has weights of its own
BENDS = 8
OWN_SCALE = 0.3  # relations' own weights are penalised 1/this² times as much as those of all
VALUES = 4


@dataclass(frozen=True)
class NullLogistic(FeatureCalibrator):
    """Logistic regression on both sides' scores and asinh z-scores, bent at quantiles, with labelled triples.

    Each of the four values, the sum and difference of both z and the difference of both scores adds a line that may
    bend at some quantiles. Relations with enough labelled triples have weights of their own on top, drawn to 0.
    A value beyond those that it was fitted to counts as the outermost of them.
    """

    name: ClassVar[str] = "null-logistic"
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    bends: tuple[tuple[float, ...], ...]
    centres: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float
    relations: tuple[int, ...] = ()
    own_weights: tuple[tuple[float, ...], ...] = ()
    """Of the four values and of 1, by relation."""

    @classmethod
    def fit_features(cls, features: Features, truth: Truth, candidates: Features | None = None) -> NullLogistic:
        """Fit with a light L2 penalty; labelled triples are enough, and candidates are not looked at."""
        from sklearn.linear_model import LogisticRegression

        values = _values(features)
        bends = [np.unique(np.quantile(line, np.arange(1, BENDS + 1) / (BENDS + 1))) for line in _lines(values).T]
        columns = _bent(values, bends)
        centres, spreads = columns.mean(0), columns.std(0) + 1e-12
        scaled = (columns - centres) / spreads
        found, counts = np.unique(features.relations, return_counts=True)
        relations = found[counts >= ENOUGH].tolist()
        own = [OWN_SCALE * (features.relations == r)[:, None] * _with_one(scaled) for r in relations]
        model = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-8).fit(np.hstack([scaled, *own]), truth)
        weights, of_relations = model.coef_[0, : scaled.shape[1]], model.coef_[0, scaled.shape[1] :]
        return cls(
            float(truth.mean()),
            lowest=_tuple(values.min(0)),
            highest=_tuple(values.max(0)),
            bends=tuple(map(_tuple, bends)),
            centres=_tuple(centres),
            spreads=_tuple(spreads),
            weights=_tuple(weights),
            offset=float(model.intercept_[0]),
            relations=tuple(relations),
            own_weights=tuple(map(_tuple, OWN_SCALE * of_relations.reshape(len(relations), VALUES + 1))),
        )

    def apply_features(self, features: Features) -> Floats:
        values = np.clip(_values(features), self.lowest, self.highest)
        scaled = (_bent(values, map(np.array, self.bends)) - self.centres) / np.array(self.spreads)
        logits = np.asarray(scaled @ np.array(self.weights) + self.offset)
        own = dict(zip(self.relations, self.own_weights, strict=True))
        for relation in own.keys() & np.unique(features.relations).tolist():
            mine = features.relations == relation
            logits[mine] += _with_one(scaled[mine]) @ np.array(own[relation])
        return logits


def _values(features: Features) -> Floats:
    z = (np.arcsinh(features.tail_z), np.arcsinh(features.head_z))
    return np.stack([features.tail_scores, features.head_scores, *z], axis=1)


def _lines(values: Floats) -> Floats:
    tail, head, tail_z, head_z = values.T
    return np.column_stack([values, tail_z + head_z, tail_z - head_z, tail - head])


def _bent(values: Floats, bends: Iterable[Floats]) -> Floats:
    """Return the lines, and beside them how far each lies beyond each of its bends."""
    lines = _lines(values)
    beyond = [np.maximum(0, line[:, None] - own) for line, own in zip(lines.T, bends, strict=True)]
    return np.hstack([lines, *beyond])


def _with_one(scaled: Floats) -> Floats:
    return np.column_stack([scaled[:, :VALUES], np.ones(len(scaled))])


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
