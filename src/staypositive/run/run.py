"""`Run`: what a user holds after training. It evaluates, calibrates, predicts and saves itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staypositive.errors import InputError
from staypositive.evaluation import DEFAULT_MEMORY, Ranks, negative_log_likelihood
from staypositive.graph import Facts, KnowledgeGraph, add_facts
from staypositive.inference import (
    Explainer,
    Predictor,
    Query,
    explain_triple,
    measure_prediction_sets,
    prediction_set,
    read_queries,
)
from staypositive.models import BilinearModel, Scorer, build_model
from staypositive.probability import (
    Calibrator,
    Conformal,
    FeatureCalibrator,
    NullDistribution,
    Posterior,
    find_calibrator,
    fit_calibrator,
)
from staypositive.run.commands import commands
from staypositive.run.folder import WEIGHTS, RunParts, load_parts, save_parts, save_results
from staypositive.run.measuring import (
    FILTERS,
    best_calibrator,
    classification_report,
    rank_split,
    rank_split_sampled,
    ranking_report,
    sampled_report,
)
from staypositive.run.memory import advising
from staypositive.run.new_entities import carry_over, require_free_rows, require_reached
from staypositive.run.packaged import find_run
from staypositive.run.provenance import of_graph
from staypositive.run.settings import Settings
from staypositive.training import EpochRecord
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """A graph, a trained model, and all that is known about how it came to be and how good it is."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: BilinearModel,
        settings: Settings,
        history: Sequence[EpochRecord],
        best_epoch: int,
        provenance: dict[str, Any],
        *,
        metrics: dict[str, Any] | None = None,
        calibrator: Calibrator | None = None,
    ) -> None:
        self.graph, self.model, self.settings = graph, model, settings
        self.history, self.best_epoch, self.provenance = tuple(history), best_epoch, provenance
        self.metrics = metrics or {}
        self.calibrator = calibrator
        self.ranks: dict[str, Ranks] = {}
        self.hashes: dict[str, str] = {}

    def __repr__(self) -> str:
        objective = self.settings.objective.name
        calibration = self.calibrator.name if self.calibrator else "none"
        best = f"best epoch {self.best_epoch} of {len(self.history)}, " if self.history else ""
        return f"<Run {self.settings.model} on {self.graph.name} by {objective}, {best}calibration {calibration}>"

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
    def evaluate(
        self,
        split: str = "test",
        *,
        ranking: bool = True,
        sampled: int | None = None,
        memory: int = DEFAULT_MEMORY,
        progress: Callable[[int], Any] | None = None,
    ) -> dict[str, Any]:
        """Measure a split and keep the result in `metrics`.

        `ranking` (filtered and raw, three tie rules, head and tail apart, each relation) for its facts, from `ranks`
        where they hold the split; with `sampled`, in its place, `sampled_ranking` against so many drawn entities, for
        graphs too large to rank whole;
        `classification` (NLL, Brier, AUC, AP, ECE, accuracy, without and with calibration) where it has negatives.
        """
        own = self.graph.split(split)
        if len(own) == 0:
            raise InputError(f"split {split!r} of {self.graph.name} is empty; there is nothing to evaluate")
        report: dict[str, Any] = {}
        if sampled is not None and len(own.facts):
            drawn = rank_split_sampled(self.predictor, split, sampled, memory, progress)
            report["sampled_ranking"] = sampled_report(split, sampled, drawn)
        elif ranking and len(own.facts):
            if split not in self.ranks:
                with advising(f"ranking {split}", "give evaluate a smaller memory (--memory-mb)"):
                    self.ranks[split] = rank_split(self.predictor, split, memory, progress)
            report["ranking"] = ranking_report(self.graph, split, self.ranks[split])
        if own.has_negatives and len(own.facts):
            report["classification"] = classification_report(self.predictor, split)
        if not report:
            raise InputError(
                f"split {split!r} has no triples labelled false, so that ranking is all there is to measure"
            )
        self.metrics[split] = self.metrics.get(split, {}) | report
        return report

    @checked
    def calibrate(self, method: str = "auto") -> dict[str, float]:
        """Fit a calibrator on validation; return NLL there before and after, where there are labels to measure it.

        `auto` takes what measured best for the objective and for the labels there are (see `best_calibrator`).
        `platt`, `isotonic`, `temperature`, `beta` and `null-logistic` need triples labelled true and false;
        `posterior` looks at validation facts alone.
        """
        if method == "auto":
            method = best_calibrator(self.graph, self.settings.objective) or "platt"
        valid, kind = self.graph.valid, find_calibrator(method)
        if kind is not Posterior and not (valid.has_negatives and len(valid.facts)):
            raise InputError(
                f"calibration needs validation triples labelled true and false, and {self.graph.name} has none "
                "labelled false. Add a fourth column of 1 and -1, or a valid_negatives file, or use posterior, which "
                "needs facts alone"
            )
        plain = Predictor(self.graph, self._scorer)
        logits = plain.logits(plain.score(valid.triples))
        features = self._null_distribution.features(valid.triples) if issubclass(kind, FeatureCalibrator) else None
        candidates = self._null_distribution.candidates_in_range(valid.facts) if kind is Posterior else None
        self.calibrator = fit_calibrator(method, logits, valid.signs, features, candidates)
        for report in self.metrics.values():
            report.pop("classification", None)  # measured with another calibrator
        if not valid.has_negatives:
            return {}
        return {
            "nll_before": negative_log_likelihood(logits, valid.signs),
            "nll_after": negative_log_likelihood(self.predictor.triple_logits(valid.triples), valid.signs),
        }

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
        progress: Callable[[int], Any] | None = None,
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
    def with_entities(
        self,
        facts: Facts,
        *,
        unobserved_weight: float | None = None,
        ridge: float | None = None,
        header: bool | None = None,
    ) -> Run:
        """Return a run that knows more facts, and entities it was not trained with, each by one least-squares solve.

        `facts` are triples by label or a file of them; relations must be known. Rows of known entities stay as they
        are. The calibrator is kept; metrics are not, since they were measured among fewer entities.
        """
        require_free_rows(self.model)
        graph = add_facts(self.graph, facts, header)
        model = build_model(self.settings.model, **self.model.settings() | {"n_entities": len(graph.entities)})
        model.to(self.model.entities)
        carried = carry_over(self, graph, model, unobserved_weight=unobserved_weight, ridge=ridge)
        require_reached(graph, carried)
        model.eval()
        more = {
            "facts": len(graph.train) - len(self.graph.train),
            "entities": len(graph.entities) - len(self.graph.entities),
            "source": graph.sources[-1].name,
        }
        provenance = self.provenance | of_graph(graph) | {"added": [*self.provenance.get("added", []), more]}
        return Run(graph, model, self.settings, self.history, self.best_epoch, provenance, calibrator=self.calibrator)

    @checked
    def explain(self, head: str, relation: str, tail: str, top: int = 10) -> pd.DataFrame:
        """Return the training facts that support a triple most; see `inference.support`."""
        return explain_triple(self.predictor, Explainer(self.predictor), head, relation, tail, top)

    @cached_property
    def conformal(self) -> Conformal:
        """How strange validation facts are: what prediction sets are calibrated on."""
        return Conformal.fit(self._scorer, self.graph.valid.facts)

    @checked
    def save(self, folder: str | os.PathLike[str], precision: str = "float32") -> Path:
        """Write the run to a folder, whole or not at all; a run already there is replaced.

        `precision="float16"` halves the weights on disk; they are computed with in 32 bits again.
        """
        parts = RunParts(
            self.graph, self.model, self.settings, self.history, self.best_epoch, self.metrics, self.calibrator,
            self.provenance,
        )  # fmt: skip
        return save_parts(folder, parts, precision)

    def save_results(self, folder: str | os.PathLike[str]) -> None:
        """Write metrics and calibrator to the folder that the run was read from; all else there stays as it is."""
        save_results(folder, self.metrics, self.calibrator, {WEIGHTS: self.hashes.get(WEIGHTS, "")})

    def commands(self) -> list[str]:
        """Return the commands that make the run again."""
        return commands(self)


@checked
def load_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run from its folder, or one of the package by name (`"geo-demo"`).

    A missing, damaged or too new one is a `RunError` that says so.
    """
    parts = load_parts(find_run(folder))
    run = Run(
        parts.graph, parts.model, parts.settings, parts.history, parts.best_epoch, parts.provenance,
        metrics=parts.metrics, calibrator=parts.calibrator,
    )  # fmt: skip
    run.hashes = parts.hashes
    return run
