"""Ranks of true answers among some drawn entities, for graphs too large to rank whole.

Such ranks are better than those among all entities, by as much as candidates are missing, and what they say of two
models can differ (Krichene and Rendle 2020): their metrics have names of their own, so that nobody mixes the two up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.evaluation.answers import AnswerIndex
from staypositive.evaluation.ranking import DEFAULT_MEMORY, Ranks, finished

ScoreDrawn = Callable[[Tensor, Tensor, bool], Tensor]
"""From facts, shape (n, 3), entities for each, shape (n, c), and whether they are tails, to their scores, (n, c)."""


class QueryScorer(Protocol):
    """What sampled ranking needs of a model: queries, and the rows that answer them."""

    entity_rows: Tensor

    def tail_queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return q with φ = q · tail row."""
        ...

    def head_queries(self, relations: Tensor, tails: Tensor) -> Tensor:
        """Return q with φ = q · head row."""
        ...


def rank_sampled(
    scorer: QueryScorer,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    candidates: int,
    *,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int], Any] | None = None,
) -> Ranks:
    """Rank both sides of each fact against so many entities, drawn uniformly with replacement for each query.

    A draw of the target itself is left out, and, in the filtered setting, one of another known answer.
    """
    rows = scorer.entity_rows

    def score(piece: Tensor, ids: Tensor, is_tail: bool) -> Tensor:
        heads, relations, tails = piece.unbind(1)
        queries = scorer.tail_queries(heads, relations) if is_tail else scorer.head_queries(relations, tails)
        return torch.einsum("nw,ncw->nc", queries, rows[ids])

    chunk = max(1, memory // (rows[:1].nbytes * (1 + max(1, candidates))))
    return rank_drawn(
        score, facts, known, candidates, len(rows), rows.device, chunk=chunk, seed=seed, progress=progress
    )


def rank_drawn(
    score: ScoreDrawn,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    candidates: int,
    n_entities: int,
    device: torch.device,
    *,
    chunk: int,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Ranks:
    """Do as `rank_sampled`, by what scores the drawn, `chunk` facts at a time."""
    if candidates < 1:
        raise InputError(f"sampled ranking needs at least 1 candidate, got {candidates}")
    if len(facts) == 0:
        raise InputError("there are no facts to rank in this split")
    generator = torch.Generator().manual_seed(seed)
    asked, filters = (torch.as_tensor(part, device=device) for part in (facts, known))
    n_relations = int(max(known[:, 1].max(initial=0), facts[:, 1].max())) + 1
    parts = []
    for is_tail in (True, False):
        given, wanted = (0, 2) if is_tail else (2, 0)
        answers = AnswerIndex(filters[:, given] * n_relations + filters[:, 1], filters[:, wanted], n_entities)
        for piece in asked.split(chunk):
            drawn = torch.randint(n_entities, (len(piece), candidates), generator=generator).to(device)
            is_known = answers.holds((piece[:, given] * n_relations + piece[:, 1])[:, None], drawn)
            targets = piece[:, wanted, None]
            parts.append(
                _counts(score(piece, torch.cat([targets, drawn], dim=1), is_tail), drawn != targets, is_known)
            )
            if progress is not None:
                progress(len(piece))
    return finished(torch.cat(parts, dim=1), facts)


def _counts(scores: Tensor, counted: Tensor, is_known: Tensor) -> Tensor:
    """Count better answers, ties and candidates, filtered and raw, and NaN scores; the target's score comes first."""
    aims, theirs = scores[:, :1], scores[:, 1:]
    found = []
    for kept in (counted & ~is_known, counted):
        above, equal = kept & (theirs > aims), kept & (theirs == aims)
        found += [above.sum(1), equal.sum(1), kept.sum(1) + 1]
    return torch.stack([*found, torch.isnan(scores).any(1)])
