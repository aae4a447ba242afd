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
from staypositive.probability import Conformal, Evidence, NullDistribution
from staypositive.run.folder import RunParts
from staypositive.run.measuring import FILTERS, no_posterior_reason
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd


class Answers(RunParts):
    """What can be asked of a trained model; answers carry probabilities, where these could be fitted."""

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.model, exact=True)

    @cached_property
    def _null_distribution(self) -> NullDistribution:
        return NullDistribution(self.graph, self._scorer)

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self.graph.facts(), self._scorer, len(self.graph.relations))

    @property
    def predictor(self) -> Predictor:
        """Answers by label, with the probabilities and the calibrator that were fitted."""
        evidence = None if self.posterior is None else self._evidence
        return Predictor(self.graph, self._scorer, self.calibrator, self._null_distribution, self.posterior, evidence)

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
        completeness: float | None = None,
    ) -> pd.DataFrame:
        """Answer (h, r, ?), (?, r, t) or (h, ?, t), or judge a triple; options as in `Predictor.find`.

        `completeness` is the share of all true facts that the graph is taken to have: the fewer, the likelier is
        what it does not have. `attrs` of the frame hold it, and a `note` where the question fits no fact.
        """
        return self.predictor.assuming(completeness).predict(
            head, relation, tail, top=top, exclude_known=exclude_known, exclude_self=exclude_self,
            candidates=candidates,
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
        completeness: float | None = None,
    ) -> pd.DataFrame:
        """Return a set of new answers that holds the true one with that probability, calibrated on validation facts.

        `per_relation` uses the relation's own facts where it has enough, so that the promise holds for each.
        """
        query = Query(head, relation, tail)
        predictor = self.predictor.assuming(completeness)
        return prediction_set(predictor, self.conformal, query, coverage, per_relation=per_relation)

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
    def answer(self, queries: Sequence[Query], *, completeness: float | None = None, **options: Any) -> pd.DataFrame:
        """Answer many queries in one table; options as in `Predictor.find`."""
        return self.predictor.assuming(completeness).answer(queries, **options)

    @checked
    def similar(self, entity: str, top: int = 10) -> pd.DataFrame:
        """Return the entities most like this one, by the cosine of their rows."""
        return self.predictor.similar(entity, top)

    @checked
    def predict_proba(
        self, triples: Any, *, completeness: float | None = None, like_labelled: bool = False
    ) -> NDArray[np.float64]:
        """Return the probability of each triple, taken as not in the graph, shape (n,).

        `triples` have shape (n, 3), by label or by id: a list, an array, or a frame of head, relation and tail.
        `like_labelled` asks the calibrator of labelled splits instead: how likely is it among triples like those?
        """
        ids, predictor = triple_ids(self.graph, triples), self.predictor.assuming(completeness)
        if not like_labelled and self.posterior is None:
            raise InputError(f"there are no probabilities, only scores: {self.why_no_probability()}")
        return sigmoid(predictor.labelled_log_odds(ids) if like_labelled else predictor.log_odds(ids))

    def why_no_probability(self) -> str | None:
        """Return why answers have scores and no probabilities; None where they have probabilities."""
        if self.posterior is not None:
            return None
        return no_posterior_reason(self.graph) or "none were fitted yet; `calibrate` does it"

    @checked
    def explain(self, head: str, relation: str, tail: str, top: int = 10) -> pd.DataFrame:
        """Return the training facts that support a triple most: a support of 1 is that of the triple itself."""
        return explain_triple(self.predictor, Explainer(self.predictor), head, relation, tail, top)

    @checked
    def discover(
        self,
        *,
        min_probability: float | None = None,
        completeness: float | None = None,
        relations: Iterable[str] | None = None,
        top: int | None = None,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """Return new triples that reach a probability, by default ½: head, relation, tail, probability, score.

        The most likely come first, and `top` keeps only that many. `completeness` is the share of all true facts
        that the graph is taken to have.
        """
        if top is not None:
            require_top(top)
        names = [relations] if isinstance(relations, str) else relations
        ids = range(len(self.graph.relations)) if names is None else self.graph.relations.ids(names).tolist()
        predictor = self.predictor.assuming(completeness)
        found = discover(predictor, min_probability=min_probability, relations=ids, most=top, progress=progress)
        return discovery_table(predictor, found, top)

    @checked
    def stats(
        self,
        *,
        threshold: float = 0.5,
        completeness: float | None = None,
    ) -> pd.DataFrame:
        """Return mean and standard deviation of the |E|² scores of each relation and of all, and new facts to expect.

        Moments are exact, without enumeration. `new_facts`, with its standard error, is how many true triples the
        graph lacks; `likely` unknown triples reach the threshold, and `likely_facts` of those are true.
        """
        return score_statistics(self.predictor.assuming(completeness), threshold=threshold)

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
