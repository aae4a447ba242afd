"""`Run`: what a user holds after training. It evaluates, calibrates, predicts and saves itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import InputError, advising
from staypositive.evaluation import DEFAULT_MEMORY, Progress, Ranks, negative_log_likelihood
from staypositive.graph import Facts, StreamedSplit
from staypositive.inference import Predictor
from staypositive.probability import FeatureCalibrator, Labelled, TriplePosterior, find_calibrator, fit_calibrator
from staypositive.run.answers import Answers, triple_ids
from staypositive.run.folder import find_run, load_parts
from staypositive.run.measuring import (
    Hiding,
    best_calibrator,
    classification_report,
    flat_metrics,
    labelled_calibrator,
    no_posterior_reason,
    rank_split,
    ranking_report,
)
from staypositive.run.new_entities import RIDGE, grown_run
from staypositive.run.provenance import commands
from staypositive.typed import checked

HEADLINE = ("mrr", "sampled_mrr", "hits@10", "sampled_hits@10", "auc", "nll")
"""Metrics that a notebook shows of a run."""


@dataclass(eq=False, repr=False)
class Run(Answers):
    """A graph, a trained model, and all that is known about how it came to be and how good it is."""

    ranks: dict[str, Ranks] = field(default_factory=dict, init=False)
    """Ranks of splits that need not be computed again."""

    def __repr__(self) -> str:
        parts = self._described()
        best = f"best epoch {parts['best epoch']}, " if self.history else ""
        return (
            f"<Run {self.settings.model} on {self.graph.name} by {parts['objective']}, {best}"
            f"probabilities {parts['probabilities']}>"
        )

    def _repr_html_(self) -> str:
        shown = self._described()
        for split, measured in self.metrics.items():
            flat = flat_metrics(measured)
            shown[split] = ", ".join(f"{name} {flat[name]:.4f}" for name in HEADLINE if name in flat)
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in shown.items())
        return f"<table>{''.join(rows)}</table>"

    def _described(self) -> dict[str, str]:
        sizes, preset = self.graph.counts(), self.provenance.get("preset")
        return {
            "graph": f"{self.graph.name}: {sizes['entities']:,} entities, {sizes['relations']:,} relations",
            "model": f"{self.settings.model}, dim {self.settings.dim}",
            "objective": self.settings.objective.name + (f" (preset {preset})" if preset else ""),
            "best epoch": f"{self.best_epoch} of {len(self.history)}",
            "probabilities": f"at completeness {self.posterior.completeness:.4g}" if self.posterior else "none",
        }

    @checked
    def evaluate(
        self,
        split: str = "test",
        *,
        ranking: bool = True,
        discovery: bool = True,
        sampled: int | None = None,
        memory: int = DEFAULT_MEMORY,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Measure a split and keep the result in `metrics`.

        `ranking` (filtered and raw, three tie rules, head and tail apart, each relation) for its facts, from `ranks`
        where they hold the split; with `sampled`, in its place, `sampled_ranking` against that number of drawn
        entities, for graphs too large to rank whole; `discovery`, how far probabilities of unknown triples hold when
        the test facts are hidden, where they have been fitted; `classification` (NLL, Brier, AUC, AP, ECE, accuracy,
        without and with calibration) where it has negatives.
        """
        own = self.graph.split(split)
        if len(own) == 0:
            raise InputError(f"split {split!r} of {self.graph.name} is empty; there is nothing to evaluate")
        report: dict[str, Any] = {}
        if (ranking or sampled is not None) and len(own.facts):
            ranks = self.ranks.get(split) if sampled is None else None
            if ranks is None:
                with advising(f"ranking {split}", "give evaluate a smaller memory (--memory-mb)"):
                    ranks = rank_split(self.predictor, split, sampled, memory, progress)
            if sampled is None:
                self.ranks[split] = ranks
            report = ranking_report(self.graph, split, ranks, sampled)
        judge, by_labels = self.predictor, isinstance(self.calibrator, Labelled) and own.has_negatives
        if split == "test" and len(own.facts) and self.posterior is not None and (discovery or by_labels):
            hiding = Hiding(self.graph, self._scorer, split, self.settings.seed)
            found = hiding.report() if discovery else {}
            report |= {"discovery": found} if found else {}
            judge = hiding.labelled() if by_labels else judge
        if own.has_negatives and len(own.facts):
            report["classification"] = classification_report(judge, split)
        if not report:
            raise InputError(
                f"split {split!r} has no triples labelled false, so that ranking is all there is to measure"
            )
        self.metrics[split] = self.metrics.get(split, {}) | report
        return report

    @checked
    def calibrate(
        self, method: str = "auto", *, completeness: float | None = None, progress: Progress | None = None
    ) -> dict[str, float]:
        """Fit the probabilities of triples that are not in the graph, and a calibrator of labelled splits.

        The probabilities need validation facts only. `completeness` is the share of all true facts that the graph is
        taken to have; by default as many are missing as were held out for validation, or fewer where the graph
        leaves no room for so many. `method` is the calibrator of triples like the labelled ones: `auto` is what
        measured best for the objective, where validation has labels; `none` fits none. Returned are what was assumed
        and, with labels, their NLL before and after.
        """
        found: dict[str, float] = {}
        reason = no_posterior_reason(self.graph)
        if reason is None:
            self.posterior = TriplePosterior.fit(
                self._evidence, self.graph.train.facts, self.graph.valid.facts, completeness=completeness,
                seed=self.settings.seed, progress=progress,
            )  # fmt: skip
            found = {"completeness": self.posterior.completeness, "missing": self.posterior.missing}
        best = best_calibrator(self.graph, self.settings.objective)
        name = {"auto": best, "none": None}.get(method, method)
        if name is None and reason is not None:
            raise InputError(f"there is nothing to calibrate: probabilities of unknown triples: {reason}")
        for report in self.metrics.values():  # measured with what is replaced
            report.pop("discovery", None)
            report.pop("classification", None)
        return found | (self._calibrate_labelled(name) if name else {})

    def _calibrate_labelled(self, method: str) -> dict[str, float]:
        valid, kind = self.graph.valid, find_calibrator(method)
        if kind.needs_labels and not (valid.has_negatives and len(valid.facts)):
            raise InputError(
                f"{method} needs validation triples labelled true and false, and {self.graph.name} has none labelled "
                "false. Add a fourth column of 1 and -1, or a valid_negatives file. Probabilities of unknown triples "
                "need facts only: calibrate without a method"
            )
        plain = Predictor(self.graph, self._scorer)
        logits = plain.logits(plain.score(valid.triples))
        if kind is Labelled:
            if self.posterior is None:
                raise InputError(f"{method} corrects probabilities by labels: {self.why_no_probability()}")
            self.calibrator = labelled_calibrator(self.graph, self.posterior, self._evidence)
            after = self.predictor.labelled_log_odds(valid.triples)
            before = negative_log_likelihood(logits, valid.signs)
            return {"nll_before": before, "nll_after": negative_log_likelihood(after, valid.signs)}
        features = self._null_distribution.features(valid.triples) if issubclass(kind, FeatureCalibrator) else None
        candidates = None if kind.needs_labels else self._null_distribution.candidates_in_range(valid.facts)
        self.calibrator = fit_calibrator(method, logits, valid.signs, features, candidates)
        if not valid.has_negatives:
            return {}
        return {
            "nll_before": negative_log_likelihood(logits, valid.signs),
            "nll_after": negative_log_likelihood(self.predictor.labelled_log_odds(valid.triples), valid.signs),
        }

    @checked
    def judge(self, triples: Any, truth: Any) -> None:
        """Refit probabilities with unknown triples that somebody found true or false; all judged so far at once.

        A few judgements move them a little, many a lot; without any, give empty lists.
        """
        if self.posterior is None:
            raise InputError(f"there are no probabilities that judgements could move: {self.why_no_probability()}")
        labels = np.asarray(truth, dtype=np.bool_)
        if labels.ndim != 1 or len(labels) != len(triples):
            raise InputError(f"truth is one label per triple, true or false: {len(triples)} triples, {labels.shape}")
        plain = replace(self.posterior, judged=None)
        self.posterior = (
            plain.judge(self._evidence, triple_ids(self.graph, triples), labels) if len(labels) else plain
        )

    @checked
    def finish(
        self,
        *,
        calibrate: str = "auto",
        evaluate: bool = True,
        folder: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Calibrate, evaluate the test split, save to a folder if one is given, and return `summary`.

        `calibrate` is a method as of `calibrate`, or `none`. A graph whose facts are streamed from disk is not
        ranked: that would take them all into memory.
        """
        wanted = best_calibrator(self.graph, self.settings.objective) if calibrate == "auto" else calibrate
        if calibrate != "none" and (wanted or no_posterior_reason(self.graph) is None):
            self.calibrate(calibrate)
        if evaluate and len(self.graph.test) and not isinstance(self.graph.train, StreamedSplit):
            self.evaluate("test", progress=progress)
        if folder is not None:
            self.save(folder)
        return self.summary() if folder is None else {"run": str(folder), **self.summary()}

    def summary(self) -> dict[str, Any]:
        """Return how it was trained, and what has been measured, as JSON takes it."""
        return {
            "epochs": len(self.history),
            "best_epoch": self.best_epoch,
            "seconds": sum(record.seconds for record in self.history),
            "metrics": self.metrics,
            "provenance": self.provenance,
        }

    @checked
    def metric(
        self,
        name: str,
        split: str = "test",
        *,
        side: str = "both",
        filter: str = "filtered",
        ties: str = "realistic",
        calibration: str | None = None,
    ) -> float:
        """Return one metric of a split, such as `mrr`, `hits@10` or `auc`; a split not yet measured is evaluated.

        `calibration` is `uncalibrated` or a calibrator's name: by default the run's own, where it has one.
        """
        measured = self.metrics.get(split, {})
        if not measured or (self.graph.split(split).has_negatives and "classification" not in measured):
            measured = measured | self.evaluate(split, ranking=not measured)
        found = flat_metrics(measured, side, filter, ties, calibration)
        if name not in found:
            raise InputError(f"there is no metric {name!r} of {split}; there are {', '.join(found)}")
        return found[name]

    @checked
    def with_entities(
        self,
        facts: Facts,
        *,
        unobserved_weight: float | None = None,
        ridge: float = RIDGE,
        header: bool | None = None,
    ) -> Run:
        """Return a run that knows more facts, and entities it was not trained with, each by one least-squares solve.

        `facts` are triples by label or a file of them; relations must be known. Rows of known entities stay as they
        are. The calibrator is kept; metrics are not, since they were measured among fewer entities.
        """
        return grown_run(self, facts, unobserved_weight, ridge, header)

    def report(self, path: str | os.PathLike[str] | None = None, **options: Any) -> str | Path:
        """Return one HTML page that shows the run, or write it to a file; options as in `reports.render_report`."""
        from staypositive.reports import render_report, write_report

        return render_report(self, **options) if path is None else write_report(self, path, **options)

    def commands(self) -> list[str]:
        return commands(self)


@checked
def load_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run from its folder, or one of the package by name (`"geo-demo"`).

    A missing, damaged or too new one is a `RunError` that says so.
    """
    return Run(**vars(load_parts(find_run(folder))))
