"""Inference: labels in, labelled probabilities out."""

from staypositive.inference.answer_sets import answer_set, entry_coverages, measure_sets
from staypositive.inference.discovery import Discovery, discover
from staypositive.inference.facts import FactIndex, Neighbourhood
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, read_queries
from staypositive.inference.search import LabelSearch
from staypositive.inference.support import Support, support_table

__all__ = [
    "Discovery",
    "FactIndex",
    "LabelSearch",
    "Neighbourhood",
    "Predictor",
    "Query",
    "Support",
    "answer_set",
    "discover",
    "entry_coverages",
    "measure_sets",
    "read_queries",
    "support_table",
]
