"""Inference: labels in, labelled probabilities out."""

from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, read_queries

__all__ = ["Predictor", "Query", "read_queries"]
