"""Inference: labels in, labelled probabilities out."""

from staypositive.inference.discovery import Discovery, discover
from staypositive.inference.explain import Explainer, explain_triple
from staypositive.inference.facts import FactIndex, Neighbourhood
from staypositive.inference.partial import PartialDiscovery, discovery_table
from staypositive.inference.prediction_sets import entry_coverages, measure_prediction_sets, prediction_set
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, read_queries, require_top
from staypositive.inference.search import LabelSearch
from staypositive.inference.statistics import take_census

__all__ = [
    "Discovery",
    "Explainer",
    "FactIndex",
    "LabelSearch",
    "Neighbourhood",
    "PartialDiscovery",
    "Predictor",
    "Query",
    "discover",
    "discovery_table",
    "entry_coverages",
    "explain_triple",
    "measure_prediction_sets",
    "prediction_set",
    "read_queries",
    "require_top",
    "take_census",
]
