"""What `evaluate` reports: ranking and classification metrics of one split, broken down in every way one asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.evaluation import (
    DEFAULT_MEMORY,
    SIDES,
    TIES,
    Progress,
    RankingTask,
    Ranks,
    classification_metrics,
    discovery_metrics,
    negative_log_likelihood,
    rank_facts,
    rank_sampled,
    ranking_metrics,
    threshold_metrics,
)
from staypositive.graph import KnowledgeGraph
from staypositive.inference import Predictor
from staypositive.models import BilinearModel, Scorer
from staypositive.objectives import Objective
from staypositive.probability import (
    ENOUGH_HELD_OUT,
    Evidence,
    Labelled,
    NullDistribution,
    Posterior,
    TriplePosterior,
    discovery_sample,
)
from staypositive.typed import fits

Measure = Callable[[BilinearModel], float]
"""What tells models apart by validation; larger is better."""

MOST_FACTS = 20_000_000
"""Training facts up to which probabilities of unknown triples are fitted: the evidence is held in memory."""

FILTERS = {"train": ("train",), "valid": ("train", "valid"), "test": ("train", "valid", "test")}
"""The splits whose facts are filtered when ranking each split; validation never sees test."""


def rank_split(
    predictor: Predictor,
    split: str,
    sampled: int | None = None,
    memory: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Ranks:
    """Rank both sides of each fact of a split, among all entities or against this number of drawn ones."""
    graph = predictor.graph
    facts, known = graph.split(split).facts, graph.facts(*FILTERS[split])
    scorer = Scorer(predictor.scorer.model, asked=True)  # ranks are counted in the precision that models train in
    if sampled is None:
        return rank_facts(scorer, facts, known, memory=memory, progress=progress)
    require_fewer(sampled, graph)
    return rank_sampled(scorer, facts, known, sampled, memory=memory, progress=progress)


def require_fewer(candidates: int, graph: KnowledgeGraph) -> None:
    if candidates >= len(graph.entities):
        raise InputError(f"there are {len(graph.entities):,} entities: rank among all of them, which is exact")


def ranking_report(
    graph: KnowledgeGraph, split: str, ranks: Ranks, sampled: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return every ranking metric: filtered and raw, three tie rules, head and tail apart, each relation.

    Those against `sampled` entities have names of their own, so that nobody takes them for those among all.
    """
    report: dict[str, Any] = {"queries": len(ranks), "filtered_by": list(FILTERS[split])}
    settings = {"filtered": True, "raw": False}
    if sampled is not None:
        for setting, filtered in settings.items():
            metrics = {side: ranking_metrics(ranks.side(side), filtered=filtered) for side in SIDES}
            report[setting] = {side: {f"sampled_{k}": v for k, v in own.items()} for side, own in metrics.items()}
        return {"sampled_ranking": {"candidates": sampled, **report}}
    unseen = np.tile(graph.has_unseen(graph.split(split).facts), 2)  # tail queries first, then head queries
    for setting, filtered in settings.items():
        report[setting] = {
            ties: {side: ranking_metrics(ranks.side(side), ties=ties, filtered=filtered) for side in SIDES}
            for ties in TIES
        }
    if unseen.any() and not unseen.all():
        report["without_unseen"] = ranking_metrics(ranks.select(~unseen)) | {"queries": int((~unseen).sum())}
    report["relations"] = {
        graph.relations[relation]: ranking_metrics(own) | {"queries": len(own)}
        for relation in np.unique(ranks.relations).tolist()
        for own in [ranks.select(ranks.relations == relation)]
    }
    return {"ranking": report}


def classification_report(predictor: Predictor, split: str) -> dict[str, Any]:
    """Return classification metrics without and with calibration, over all triples and over those with seen entities.

    Thresholds for accuracy are chosen on validation.
    """
    graph = predictor.graph
    seen = ~graph.has_unseen(graph.split(split).triples)
    report: dict[str, Any] = {"triples": len(seen), "all": _classified(predictor, split, np.ones_like(seen))}
    if not seen.all() and len(np.unique(graph.split(split).signs[seen])) == 2:
        report["without_unseen"] = _classified(predictor, split, seen) | {"triples": int(seen.sum())}
    return report


def _classified(predictor: Predictor, split: str, keep: NDArray[np.bool_]) -> dict[str, Any]:
    graph = predictor.graph
    ways = {"uncalibrated": Predictor(graph, predictor.scorer)}
    if predictor.calibrator is not None:
        ways[predictor.calibrator.name] = predictor
    own, valid = graph.split(split).take(keep), graph.valid
    report: dict[str, Any] = {}
    for name, way in ways.items():
        logits = way.labelled_log_odds(own.triples)
        report[name] = classification_metrics(logits, own.signs)
        if valid.has_negatives and len(valid.facts):
            reference = way.labelled_log_odds(valid.triples), valid.signs, valid.triples[:, 1]
            report[name] |= threshold_metrics((logits, own.signs, own.triples[:, 1]), reference)
    return report


def flat_metrics(
    report: Any, side: str = "both", filter: str = "filtered", ties: str = "realistic", calibration: str | None = None
) -> dict[str, float]:
    """Return the metrics of one split by name, as far as they were measured; arguments as of `Run.metric`."""
    for given, choices in ((side, SIDES), (filter, ("filtered", "raw")), (ties, TIES)):
        if given not in choices:
            raise InputError(f"expected {', '.join(choices[:-1])} or {choices[-1]}, got {given!r}")
    ways = _at(report, "classification", "all")
    if calibration is not None and calibration not in ways:
        raise InputError(f"there is no classification by {calibration!r}; there is {', '.join(ways) or 'none'}")
    found = {
        **_at(report, "ranking", filter, ties, side),
        **_at(report, "sampled_ranking", filter, side),
        **_at(ways, calibration or next(reversed(ways), "")),
        **{f"discovery_{name}": value for name, value in _at(report, "discovery").items()},
    }
    return {name: value for name, value in found.items() if fits(value, float)}


def _at(tree: Any, *path: str) -> dict[str, Any]:
    """Return a branch of a tree of reports; where there is none, nothing."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def best_calibrator(graph: KnowledgeGraph, objective: Objective) -> str | None:
    """Return the calibrator of labelled splits that measured best for an objective; None without labels."""
    valid = graph.valid
    has_labels = valid.has_negatives and len(valid.facts) > 0
    return objective.preferred_calibrator(len(valid), len(valid.facts)) if has_labels else None


def no_posterior_reason(graph: KnowledgeGraph) -> str | None:
    """Return why probabilities of unknown triples cannot be fitted to a graph; None where they can."""
    if len(graph.train) > MOST_FACTS:
        return f"they are fitted to graphs of at most {MOST_FACTS:,} facts, and this one has {len(graph.train):,}"
    keys = graph.keys
    new = len(np.setdiff1d(keys(graph.valid.facts), keys(graph.train.facts)))
    if new < ENOUGH_HELD_OUT:
        return f"they need {ENOUGH_HELD_OUT} validation facts that are not training facts, and there are {new}"
    return None


class Hiding:
    """What is fitted if a split's facts are hidden: the probabilities of unknown triples, and labels on top."""

    def __init__(self, graph: KnowledgeGraph, scorer: Scorer, split: str, seed: int = 0) -> None:
        others = graph.facts(*(name for name in ("train", "valid", "test") if name != split))
        self.graph, self.scorer, self.seed = graph, scorer, seed
        self.evidence = Evidence(others, scorer, len(graph.relations))
        hidden = np.unique(graph.split(split).facts, axis=0)
        self.hidden = hidden[~self.evidence.holds(hidden)]
        known = self.evidence.n_facts
        completeness = known / (known + len(self.hidden)) if len(self.hidden) else None
        self.posterior = TriplePosterior.fit(
            self.evidence, graph.train.facts, graph.valid.facts, completeness=completeness, seed=seed
        )

    def report(self) -> dict[str, Any]:
        """Return how stated probabilities of unknown triples compare with the hidden facts among them, if any are."""
        if not len(self.hidden):  # other splits have all of its facts
            return {}
        evidence, posterior, hidden = self.evidence, self.posterior, self.hidden
        drawn = discovery_sample(evidence, self.graph.valid.facts, self.seed + 1)  # anew: not what it was fitted to
        triples, weights = drawn
        measured = discovery_metrics(
            posterior.log_odds(evidence, triples), weights, triples[:, 1],
            np.isin(evidence.keys(triples), evidence.keys(hidden)), posterior.log_odds(evidence, hidden),
            hidden[:, 1],
        )  # fmt: skip
        names = ("completeness", "held_out", "sum_before_offset", "offset")
        return {name: getattr(posterior, name) for name in names} | measured

    def labelled(self) -> Predictor:
        """Return a predictor whose calibrator was fitted to validation labels without a look at the split."""
        calibrator = labelled_calibrator(self.graph, self.posterior, self.evidence)
        return Predictor(self.graph, self.scorer, calibrator, posterior=self.posterior, evidence=self.evidence)


def labelled_calibrator(graph: KnowledgeGraph, posterior: TriplePosterior, evidence: Evidence) -> Labelled:
    """Return what the validation labels add to the posterior, among triples like those."""
    triples = graph.valid.triples
    features = evidence.features(triples)
    log_odds = posterior.of_features(features, triples)
    return Labelled.fit_evidence(log_odds, features, triples[:, 1], graph.valid.signs > 0)


def validation_measure(graph: KnowledgeGraph, most_facts: int | None = None, monitor: str | None = None) -> Measure:
    """Return what picks epochs and settings: −NLL of labelled validation triples where there are, else filtered MRR.

    `most_facts` limits the facts that are looked at, evenly spaced. `monitor` may ask for `mrr` where there are
    labels, or for `posterior`: −NLL as the posterior expects it, by facts and their null distributions.
    """
    valid = graph.valid
    if valid.has_negatives and monitor not in ("mrr", "posterior"):
        signs = valid.signs

        def by_nll(model: BilinearModel) -> float:
            with torch.no_grad():
                triples = torch.as_tensor(valid.triples, device=model.entities.device)
                logits = model.logit(*triples.unbind(1)).double().cpu().numpy()
            return -negative_log_likelihood(logits, signs) if np.isfinite(logits).all() else -math.inf

        return by_nll
    facts, known = valid.facts, graph.facts("train", "valid")
    if most_facts is not None and most_facts < len(facts):
        facts = facts[np.linspace(0, len(facts) - 1, most_facts).astype(np.int64)]

    if monitor == "posterior":

        def by_posterior(model: BilinearModel) -> float:
            null = NullDistribution(graph, Scorer(model))
            features, candidates = null.features(facts), null.candidates_in_range(facts)
            return -float(min(Posterior.expected_losses(features, candidates if len(candidates) else None).values()))

        return by_posterior

    task = cache(partial(RankingTask, facts, known, len(graph.entities)))

    def by_mrr(model: BilinearModel) -> float:
        with torch.no_grad():
            return ranking_metrics(task(model.entities.device).rank(Scorer(model).asked()))["mrr"]

    return by_mrr
