"""Queries: a triple with at most one part missing, written `?` in a file."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import DataError, InputError
from staypositive.evaluation import AnswerIndex
from staypositive.graph import KnowledgeGraph, read_triples
from staypositive.models import Scorer
from staypositive.typed import fits

MISSING = "?"
PARTS = ("head", "relation", "tail")


class Query(NamedTuple):
    """What is asked: one of the three parts is None, or none is, which asks for that one triple."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None

    @property
    def missing(self) -> str:
        """The part asked for: head, relation, tail, or "" for a whole triple."""
        gone = [part for part, label in zip(PARTS, self, strict=True) if label is None]
        if len(gone) > 1:
            raise InputError(f"a query leaves one part open at most; this one lacks {' and '.join(gone)}")
        return gone[0] if gone else ""


def read_queries(path: str | os.PathLike[str], graph: KnowledgeGraph) -> list[Query]:
    """Read queries from a file of triples (tab-separated or .csv, gzipped or not), `?` for the missing part.

    A query that cannot be asked of the graph is an error that names its line.
    """
    queries = []
    asked = read_triples(Path(path))
    for line, *labels in zip(asked.lines, *asked.columns, strict=True):
        query = Query(*(None if label == MISSING else label for label in labels))
        try:
            encode_query(query, graph)
        except InputError as error:
            raise DataError(str(error), path, line) from None
        queries.append(query)
    return queries


def require_top(top: int) -> None:
    """Refuse anything but a whole number of answers."""
    if not fits(top, int) or top < 1:
        raise InputError(f"top must be a whole number of at least 1, got {top!r:.80}")


def encode_query(query: Query, graph: KnowledgeGraph) -> list[int]:
    """Return the ids of a query, −1 for the missing part."""
    query.missing  # noqa: B018  # raises where two parts are open
    vocabularies = (graph.entities, graph.relations, graph.entities)
    for part, label in zip(PARTS, query, strict=True):
        if not isinstance(label, str | None):
            raise InputError(f"the {part} of a query is a label, which is text, or None; got {label!r:.80}")
    return [-1 if label is None else words.id(label) for words, label in zip(vocabularies, query, strict=True)]


class Asking:
    """How one part of a triple is asked for: its scores, its known answers, its range."""

    def __init__(self, part: str, graph: KnowledgeGraph, scorer: Scorer) -> None:
        self.column = PARTS.index(part)
        self.part, self.graph, self.scorer = part, graph, scorer
        self.vocabulary = graph.relations if part == "relation" else graph.entities

    def scores(self, given: Tensor) -> Tensor:
        """Return φ of every answer, shape (n, answers)."""
        heads, relations, tails = given.unbind(1)
        if self.part == "tail":
            return self.scorer.tails(heads, relations)
        return self.scorer.heads(relations, tails) if self.part == "head" else self.scorer.relations(heads, tails)

    def keys(self, triples: Tensor) -> Tensor:
        """Return one number for each triple's other two parts."""
        first, second = (column for column in range(3) if column != self.column)
        width = len(self.graph.relations if second == 1 else self.graph.entities)
        return triples[:, first] * width + triples[:, second]

    @cached_property
    def known(self) -> AnswerIndex:
        """The answers that facts of any split give."""
        facts = self._on_device(self.graph.facts())
        return AnswerIndex(self.keys(facts), facts[:, self.column], len(self.vocabulary))

    @cached_property
    def ranges(self) -> AnswerIndex:
        """The entities that training facts of each relation have in this position."""
        facts = self._on_device(self.graph.train.facts)
        return AnswerIndex(facts[:, 1], facts[:, self.column], len(self.vocabulary))

    def _on_device(self, facts: NDArray[np.int64]) -> Tensor:
        return torch.as_tensor(facts, device=self.scorer.device)
