"""Ranking, scoring and discovery by several processes: each scores its own entities.

Ranks are exact: the counts of all processes are added up, among all entities, filtered and raw, with ties, as
`evaluation.ranking` defines them. Of the new triples that are likely, process 0 has the best of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.evaluation import DEFAULT_MEMORY, RankingTask, Ranks, count_ranks, rank_drawn
from staypositive.graph import KnowledgeGraph
from staypositive.inference import Discovery, Predictor, new_by_score, pairs_of, require_probability
from staypositive.inference.discovery import PIECE
from staypositive.models import BilinearModel, Scorer, evaluating
from staypositive.training import RowExchange, Share, World


def rank_sharded(
    world: World,
    model: BilinearModel,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int], Any] | None = None,
) -> Ranks:
    """Rank both sides of each fact among all entities, of which each process has its own; all return the ranks."""
    scorer = Scorer(model, asked=True)
    own_rows = scorer.entity_rows
    columns = own_rows.T.contiguous()

    def count(chunk: Tensor, answers: tuple[Tensor, Tensor], is_tail: bool) -> Tensor:
        heads, relations, tails = chunk.unbind(1)
        given, targets = (heads, tails) if is_tail else (tails, heads)
        scores = ask_everywhere(world, scorer, given, relations, is_tail) @ columns
        aims = scores.new_zeros(len(chunk))
        mine, columns_of_mine = world.own(targets)
        aims[mine] = scores[mine, columns_of_mine]
        aims = world.all_reduce("ranking", aims)
        places, others = answers
        held, columns_held = world.own(others)
        places, others = places[held], others[held]
        counts = count_ranks(scores, aims[:, None], places, columns_held, others != targets[places])
        return world.all_reduce("ranking", counts)

    with evaluating(model):
        task = RankingTask(facts, known, model.n_entities, own_rows.device, memory * world.size)
        return task.rank_by(count, progress)


def rank_sampled_sharded(
    world: World,
    model: BilinearModel,
    facts: NDArray[np.int64],
    known: NDArray[np.int64],
    candidates: int,
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int], Any] | None = None,
) -> Ranks:
    """Rank both sides of each fact against drawn entities, each scored by the process that has it."""
    scorer = Scorer(model, asked=True)
    own_rows = scorer.entity_rows

    def score(piece: Tensor, ids: Tensor, is_tail: bool) -> Tensor:
        heads, relations, tails = piece.unbind(1)
        queries = ask_everywhere(world, scorer, heads if is_tail else tails, relations, is_tail)
        mine, places = world.own(ids)
        scores = queries.new_zeros(ids.shape)
        scores[mine] = (queries[mine.nonzero()[:, 0]] * own_rows[places]).sum(1)
        return world.all_reduce("ranking", scores)

    with evaluating(model):
        chunk = max(1, memory * world.size // (own_rows[:1].nbytes * (1 + max(1, candidates))))
        return rank_drawn(
            score, facts, known, candidates, model.n_entities, own_rows.device, chunk=chunk, progress=progress
        )


def score_sharded(world: World, model: BilinearModel, triples: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return φ of triples, to every process; each scores its share of them."""
    share = Share.of(world, len(triples))
    heads, relations, tails = torch.as_tensor(triples[share.own], device=world.device).unbind(1)
    ids, places = torch.unique(torch.cat([heads, tails]), return_inverse=True)
    with evaluating(model):
        scorer = Scorer(model, exact=True)
        fetched = scorer.with_entity_rows(RowExchange(world, ids).fetch(scorer.entity_rows))
        scores = torch.zeros(len(triples), dtype=torch.float64, device=world.device)
        own = fetched.triples(places[: len(heads)], relations, places[len(heads) :])
        scores[share.own] = own.double() * bool(share.counted)
    found: NDArray[np.float64] = world.all_reduce("ranking", scores).cpu().numpy()
    return found


def ask_everywhere(world: World, scorer: Scorer, given: Tensor, relations: Tensor, is_tail: bool) -> Tensor:
    """Return the queries about some entities' tails, or heads, to every process alike; each has its own rows."""
    asker = scorer.with_entity_rows(world.rows_everywhere("ranking", scorer.entity_rows, given))
    each = torch.arange(len(given), device=given.device)
    return asker.queries(torch.stack([each, relations, each], dim=1), "tail" if is_tail else "head")


def discover_sharded(
    world: World,
    graph: KnowledgeGraph,
    model: BilinearModel,
    *,
    min_probability: float | None = None,
    relations: Iterable[int] | None = None,
    most: int | None = None,
    piece: int = PIECE,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[Discovery]:
    """Yield what `inference.discover` does, to process 0, for each relation in turn; to the others, nothing found.

    A run in shards has no probabilities: these are the best triples by score.
    """
    predictor = Predictor(graph, Scorer(model, exact=True))
    require_probability(predictor, min_probability, most)
    assert most is not None
    scorer = predictor.scorer
    for relation in range(len(graph.relations)) if relations is None else relations:
        heads, tails, loops = pairs_of(graph, relation, world.device)
        mine, places_of_own = world.own(tails)
        own = tails[mine]
        best = Discovery.nothing(relation)
        for part in heads.split(max(1, piece * world.size // max(1, len(tails)))) if len(tails) else ():
            with evaluating(model):
                queries = ask_everywhere(world, scorer, part, torch.full_like(part, relation), True)
                scores = queries @ scorer.entity_rows[places_of_own].T
            best = best.merged(new_by_score(predictor, scores, part, relation, own, loops, most), most=most)
        yield _of_all(world, best, most)
        if progress is not None:
            progress(1)


def _of_all(world: World, own: Discovery, most: int) -> Discovery:
    """Return the best of all processes' to process 0."""
    parts = (
        world.to_first("discovery", torch.from_numpy(part).to(world.device)).cpu().numpy()
        for part in (own.triples, own.scores, own.logits)
    )
    return Discovery.nothing(own.relation).merged(Discovery(own.relation, *parts), most=most)
