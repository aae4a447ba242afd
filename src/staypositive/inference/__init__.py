"""Inference: labels in, labelled probabilities out."""

from staypositive.inference.discovery import (
    Discovery,
    PartialDiscovery,
    discover,
    discovery_table,
    new_by_score,
    pairs_of,
    require_probability,
)
from staypositive.inference.explain import Explainer, explain_triple
from staypositive.inference.fold_in import FoldIn, mean_fact_scores
from staypositive.inference.lookup import FactIndex, LabelSearch, Neighbourhood
from staypositive.inference.ordering import best_first
from staypositive.inference.prediction_sets import entry_coverages, measure_prediction_sets, prediction_set
from staypositive.inference.predictor import Found, Predictor
from staypositive.inference.queries import Query, encode_query, read_queries, require_top
from staypositive.inference.statistics import mean_and_std, score_statistics

__all__ = [
    "Discovery", "Explainer", "FactIndex", "FoldIn", "Found", "LabelSearch", "Neighbourhood", "PartialDiscovery",
    "Predictor", "Query", "best_first", "discover", "discovery_table", "encode_query", "entry_coverages",
    "explain_triple", "mean_and_std", "mean_fact_scores", "measure_prediction_sets", "new_by_score", "pairs_of",
    "prediction_set", "read_queries", "require_probability", "require_top", "score_statistics",
]  # fmt: skip
