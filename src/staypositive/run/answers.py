"""What a graph, a model and a calibrator answer by label: the half of `Run` that asks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.evaluation import Progress, sigmoid
from staypositive.graph import KnowledgeGraph, Split
from staypositive.inference import (
    Explainer,
    Predictor,
    Query,
    discover,
    discovery_table,
    explain_triple,
    measure_prediction_sets,
    prediction_set,
    read_queries,
    require_top,
    score_statistics,
)
from staypositive.models import Scorer, evaluating
from staypositive.probability import Conformal, NullDistribution
from staypositive.run.folder import RunParts
from staypositive.run.measuring import FILTERS
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd


class Answers(RunParts):
    """What can be asked of a trained model; answers carry probabilities by the calibrator, if there is one."""

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.model, exact=True)

    @cached_property
    def _null_distribution(self) -> NullDistribution:
        return NullDistribution(self.graph, self._scorer)

    @property
    def predictor(self) -> Predictor:
        """Answers by label, with the current calibrator."""
        return Predictor(self.graph, self._scorer, self.calibrator, self._null_distribution)

    @checked
    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        exclude_known: bool = False,
        exclude_self: bool = False,
        candidates: str | Iterable[str] | None = None,
        prior: float | None = None,
    ) -> pd.DataFrame:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), or judge a triple; options as in `Predictor.find`."""
        return self.predictor.predict(
            head, relation, tail, top=top, exclude_known=exclude_known, exclude_self=exclude_self,
            candidates=candidates, prior=prior,
        )  # fmt: skip

    @checked
    def prediction_set(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        coverage: float = 0.9,
        per_relation: bool = True,
        prior: float | None = None,
    ) -> pd.DataFrame:
        """Return a set of new answers that holds the true one with that probability, calibrated on validation facts.

        `per_relation` uses the relation's own facts where it has enough, so that the promise holds for each.
        """
        query = Query(head, relation, tail)
        return prediction_set(self.predictor, self.conformal, query, coverage, per_relation=per_relation, prior=prior)

    @checked
    def measure_prediction_sets(
        self,
        split: str = "test",
        coverage: float = 0.9,
        *,
        per_relation: bool = True,
        progress: Progress | None = None,
    ) -> dict[str, dict[str, float]]:
        """Return how often prediction sets hold the true answers of a split, and how large they are, by side."""
        facts, known = self.graph.split(split).facts, self.graph.facts(*FILTERS[split])
        return measure_prediction_sets(
            self.predictor, self.conformal, facts, known, coverage, per_relation=per_relation, progress=progress
        )

    @checked
    def predict_file(self, path: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
        """Answer a file of queries, `?` for the missing part; options as in `Predictor.find`."""
        return self.answer(read_queries(path, self.graph), **options)

    @checked
    def answer(self, queries: Sequence[Query], **options: Any) -> pd.DataFrame:
        """Answer many queries in one table; options as in `Predictor.find`."""
        return self.predictor.answer(queries, **options)

    @checked
    def similar(self, entity: str, top: int = 10) -> pd.DataFrame:
        """Return the entities most like this one, by the cosine of their rows."""
        return self.predictor.similar(entity, top)

    @checked
    def predict_proba(self, triples: Any, *, prior: float | None = None) -> NDArray[np.float64]:
        """Return the probability of each triple, shape (n,).

        `triples` have shape (n, 3), by label or by id: a list, an array, or a frame of head, relation and tail.
        """
        return sigmoid(self.predictor.triple_logits(triple_ids(self.graph, triples), prior=prior))

    @checked
    def explain(self, head: str, relation: str, tail: str, top: int = 10) -> pd.DataFrame:
        """Return the training facts that support a triple most: a support of 1 is that of the triple itself."""
        return explain_triple(self.predictor, Explainer(self.predictor), head, relation, tail, top)

    @checked
    def discover(
        self,
        *,
        min_probability: float = 0.9,
        prior: float | None = None,
        relations: Iterable[str] | None = None,
        all_pairs: bool = False,
        top: int | None = None,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """Return new triples that reach a probability, most likely first: head, relation, tail, probability, score.

        Each relation's heads and tails are those of its training facts; `all_pairs` takes all entities. `prior`
        replaces the share of true triples that the probabilities assume, and `top` keeps only that many triples.
        """
        if top is not None:
            require_top(top)
        names = [relations] if isinstance(relations, str) else relations
        ids = range(len(self.graph.relations)) if names is None else self.graph.relations.ids(names).tolist()
        found = discover(
            self.predictor, min_probability=min_probability, prior=prior, relations=ids, all_pairs=all_pairs,
            most=top, progress=progress,
        )  # fmt: skip
        return discovery_table(self.predictor, found, prior, top)

    @checked
    def stats(
        self,
        *,
        threshold: float = 0.5,
        prior: float | None = None,
        samples: int = 100_000,
        exact: bool = False,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """Return mean and standard deviation of the |E|² scores of each relation and of all, and how many are likely.

        Moments are exact, without enumeration. The number of triples that reach `threshold` is estimated from
        `samples` drawn ones, with a 95% interval; `exact` counts all of them too.
        """
        return score_statistics(
            self.predictor, threshold=threshold, prior=prior, samples=samples, exact=exact, seed=seed,
            progress=progress,
        )  # fmt: skip

    @property
    def embeddings(self) -> dict[str, pd.DataFrame]:
        """The rows of `entities` and of `relations` that scores are made of: one frame each, indexed by label.

        A relation that was learnt backwards too has a second row, called `NAME_inverse`.
        """
        import pandas as pd

        with evaluating(self.model):
            tables = self.model.entity_rows(), self.model.relation_rows()
            entities, relations = (rows.float().cpu().numpy() for rows in tables)
        names = list(self.graph.relations)
        names += [f"{name}_inverse" for name in names] if self.model.reciprocal else []
        return {
            "entities": pd.DataFrame(entities, index=list(self.graph.entities), copy=False),
            "relations": pd.DataFrame(relations, index=names, copy=False),
        }

    @cached_property
    def conformal(self) -> Conformal:
        """Nonconformity scores of validation facts: what prediction sets are calibrated on."""
        return Conformal.fit(self._scorer, self.graph.valid.facts)


def triple_ids(graph: KnowledgeGraph, triples: Any) -> NDArray[np.int64]:
    """Return triples given by label or by id, as a list, an array or a frame, by id: shape (n, 3)."""
    rows = triples[["head", "relation", "tail"]] if hasattr(triples, "columns") else triples
    array = np.asarray(rows, dtype=object)
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(f"triples have a head, a relation and a tail each: shape (n, 3), got {array.shape}")
    kinds = set(map(type, array.ravel().tolist()))
    vocabularies = (graph.entities, graph.relations, graph.entities)
    if kinds == {str}:
        return np.column_stack([own.ids(labels) for own, labels in zip(vocabularies, array.T, strict=True)])
    if not all(issubclass(kind, Integral) for kind in kinds):
        raise InputError("triples are labels or ids throughout; here they are neither, or both")
    ids = Split(array.astype(np.int64)).triples
    for own, column in zip(vocabularies, ids.T, strict=True):
        if ((column < 0) | (column >= len(own))).any():
            raise InputError(
                f"ids of {own.kind} labels go from 0 to {len(own) - 1}, got {column.min()} to {column.max()}"
            )
    return ids
