"""Inference: labels in, labelled probabilities out."""

from staypositive.inference.answer_sets import answer_set, measure_sets
from staypositive.inference.discovery import Discovery, discover
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, read_queries

__all__ = ["Discovery", "Predictor", "Query", "answer_set", "discover", "measure_sets", "read_queries"]
