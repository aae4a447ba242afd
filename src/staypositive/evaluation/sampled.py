"""Ranks of true answers among some drawn entities, for graphs too large to rank whole.

Such ranks are better than those among all entities, by as much as candidates are missing, and what they say of two
models can differ (Krichene and Rendle 2020): their metrics have names of their own, so that nobody mixes the two up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.evaluation.ranking import DEFAULT_MEMORY, Progress, Ranks, both_sides, ranks_of

ScoreDrawn = Callable[[Tensor, Tensor, bool], Tensor]
"""From facts, shape (n, 3), entities for each, shape (n, c), and whether they are tails, to their scores, (n, c)."""


class QueryScorer(Protocol):
    """What sampled ranking needs of a model: rows, and queries q with φ = q · row, for a side of some triples."""

    entity_rows: Tensor

    def queries(self, triples: Tensor, side: str) -> Tensor: ...


def rank_sampled(
    scorer: QueryScorer,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    candidates: int,
    *,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Ranks:
    """Rank both sides of each fact against `candidates` entities, drawn uniformly with replacement for each query.

    A draw of the target itself is left out, and, in the filtered setting, one of another known answer.
    """
    rows = scorer.entity_rows

    def score(piece: Tensor, ids: Tensor, is_tail: bool) -> Tensor:
        return torch.einsum("nw,ncw->nc", scorer.queries(piece, "tail" if is_tail else "head"), rows[ids])

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
    progress: Progress | None = None,
) -> Ranks:
    """Do as `rank_sampled`, by what scores the drawn, `chunk` facts at a time."""
    if candidates < 1:
        raise InputError(f"sampled ranking needs at least 1 candidate, got {candidates}")
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for piece, answers, is_tail in both_sides(facts, known, n_entities, device, chunk):
        drawn = torch.randint(n_entities, (len(piece), candidates), generator=generator).to(device)
        targets = piece[:, [2 if is_tail else 0]]
        scores = score(piece, torch.cat([targets, drawn], dim=1), is_tail)
        parts.append(_counts(scores, drawn != targets, answers.holds(piece, drawn)))
        if progress is not None:
            progress(len(piece))
    return ranks_of(torch.cat(parts, dim=1), facts)


def _counts(scores: Tensor, counted: Tensor, is_known: Tensor) -> Tensor:
    """Count better answers, ties and candidates, filtered and raw, and NaN scores; the target's score comes first."""
    aims, theirs = scores[:, :1], scores[:, 1:]
    found = []
    for kept in (counted & ~is_known, counted):
        above, equal = kept & (theirs > aims), kept & (theirs == aims)
        found += [above.sum(1), equal.sum(1), kept.sum(1) + 1]
    return torch.stack([*found, torch.isnan(scores).any(1)])
