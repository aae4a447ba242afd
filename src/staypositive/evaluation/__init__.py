"""Evaluation: ranking metrics and classification metrics, from arrays."""

from staypositive.evaluation.classification import (
    best_threshold,
    brier_score,
    classification_metrics,
    expected_calibration_error,
    negative_log_likelihood,
    relation_thresholds,
    reliability_bins,
    sigmoid,
    threshold_accuracy,
    threshold_metrics,
)
from staypositive.evaluation.discovery import discovery_metrics
from staypositive.evaluation.ranking import (
    DEFAULT_MEMORY,
    SIDES,
    TIES,
    AllScorer,
    AnswerIndex,
    KnownAnswers,
    Progress,
    RankingTask,
    Ranks,
    both_sides,
    count_ranks,
    rank_facts,
    ranking_metrics,
)
from staypositive.evaluation.sampled import rank_drawn, rank_sampled

__all__ = [
    "DEFAULT_MEMORY", "SIDES", "TIES", "AllScorer", "AnswerIndex", "KnownAnswers", "Progress", "RankingTask",
    "Ranks", "best_threshold", "both_sides", "brier_score", "classification_metrics", "count_ranks",
    "discovery_metrics", "expected_calibration_error", "negative_log_likelihood", "rank_drawn", "rank_facts",
    "rank_sampled", "ranking_metrics", "relation_thresholds", "reliability_bins", "sigmoid", "threshold_accuracy",
    "threshold_metrics",
]  # fmt: skip
