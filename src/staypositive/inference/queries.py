"""Queries: a triple with at most one part missing, written `?` in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from staypositive.errors import DataError, InputError
from staypositive.evaluation import AnswerIndex, KnownAnswers
from staypositive.graph import KnowledgeGraph, read_triples
from staypositive.models import Scorer
from staypositive.typed import fits

MISSING = "?"
PARTS = ("head", "relation", "tail")


class Query(NamedTuple):
    """A triple of labels of which one may be None, the part asked for; a whole triple is judged."""

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
    queries, asked = [], read_triples(Path(path))
    for line, *labels in zip(asked.lines, *asked.columns, strict=True):
        query = Query(*(None if label == MISSING else label for label in labels))
        try:
            encode_query(query, graph)
        except InputError as error:
            raise DataError(str(error), path, line) from None
        queries.append(query)
    return queries


@dataclass
class Limits:
    """How many answers may be given, and which; see `Predictor.find`."""

    top: int
    exclude_known: bool
    exclude_self: bool
    candidates: str | Iterable[str] | None

    def __post_init__(self) -> None:
        require_top(self.top)
        if isinstance(self.candidates, str) and self.candidates != "range":
            raise InputError(f'candidates are a list of labels, or "range"; got the text {self.candidates!r}')
        if self.candidates is not None and not isinstance(self.candidates, str):
            self.candidates = list(self.candidates)
            if not fits(self.candidates, Sequence[str]):
                raise InputError(f'candidates are a list of labels, or "range"; got {self.candidates!r:.80}')


def require_top(top: int) -> None:
    if not fits(top, int) or top < 1:
        raise InputError(f"top must be a whole number of at least 1, got {top!r:.80}")


def encode_query(query: Query, graph: KnowledgeGraph) -> list[int]:
    """Return the ids of a query, −1 for the missing part."""
    query.missing  # noqa: B018  # raises where two parts are open
    for part, label in zip(PARTS, query, strict=True):
        if not isinstance(label, str | None):
            raise InputError(f"the {part} of a query is a label, which is text, or None; got {label!r:.80}")
    words = (graph.entities, graph.relations, graph.entities)
    return [-1 if label is None else own.id(label) for own, label in zip(words, query, strict=True)]


class Asking:
    """How one part of a triple is asked for: its scores, its known answers, its range."""

    def __init__(self, part: str, graph: KnowledgeGraph, scorer: Scorer) -> None:
        self.part, self.column, self.graph, self.scorer = part, PARTS.index(part), graph, scorer
        self.vocabulary = graph.relations if part == "relation" else graph.entities

    def scores(self, given: Tensor) -> Tensor:
        heads, relations, tails = given.unbind(1)
        if self.part == "tail":
            return self.scorer.tails(heads, relations)
        return self.scorer.heads(relations, tails) if self.part == "head" else self.scorer.relations(heads, tails)

    @cached_property
    def known(self) -> KnownAnswers:
        facts = torch.as_tensor(self.graph.facts(), device=self.scorer.device)
        return KnownAnswers(facts, self.column, len(self.graph.entities), len(self.vocabulary))

    def allowed(self, given: Tensor, candidates: str | Iterable[str]) -> Tensor:
        """Return which answers are candidates, shape (n or 1, answers)."""
        if candidates != "range":
            allowed = torch.zeros(1, len(self.vocabulary), dtype=torch.bool, device=given.device)
            allowed[0, torch.as_tensor(self.vocabulary.ids(candidates))] = True
            return allowed
        if self.part == "relation":
            raise InputError("a range belongs to a relation; it cannot limit which relations are answered")
        allowed = torch.zeros(len(given), len(self.vocabulary), dtype=torch.bool, device=given.device)
        allowed[self.ranges.of(given[:, 1])] = True
        return allowed

    @cached_property
    def ranges(self) -> AnswerIndex:
        """The entities that training facts of each relation have in this position."""
        facts = torch.as_tensor(self.graph.train.facts, device=self.scorer.device)
        return AnswerIndex(facts[:, 1], facts[:, self.column], len(self.vocabulary))
