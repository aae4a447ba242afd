"""New triples that are likely, by several processes: each scores its own tails, and process 0 has the best of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from staypositive.graph import KnowledgeGraph
from staypositive.inference import Discovery, Predictor, is_new, likely_by_score, pairs_of
from staypositive.inference.discovery import PIECE
from staypositive.models import BilinearModel, Scorer, evaluating
from staypositive.sharded.ranking import ask_everywhere
from staypositive.sharded.rows import send_to_first
from staypositive.training import World


def discover_sharded(
    world: World,
    graph: KnowledgeGraph,
    model: BilinearModel,
    *,
    min_probability: float = 0.9,
    prior: float | None = None,
    relations: Iterable[int] | None = None,
    all_pairs: bool = False,
    most: int | None = None,
    piece: int = PIECE,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[Discovery]:
    """Yield what `inference.discover` does, to process 0, for each relation in turn; to the others, nothing found."""
    predictor = Predictor(graph, Scorer(model, exact=True))
    scorer = predictor.scorer
    for relation in range(len(graph.relations)) if relations is None else relations:
        heads, tails, loops = pairs_of(graph, relation, all_pairs, world.device)
        mine, places_of_own = world.own(tails)
        own = tails[mine]
        best = Discovery.nothing(relation)
        for part in heads.split(max(1, piece * world.size // max(1, len(tails)))) if len(tails) else ():
            with evaluating(model):
                queries = ask_everywhere(world, scorer, part, torch.full_like(part, relation), True)
                scores = queries @ scorer.entity_rows[places_of_own].T
            logits, points, places = likely_by_score(predictor, scores, min_probability, prior)
            rows, columns = np.divmod(places, max(1, len(own)))
            ids = part.cpu().numpy()[rows], np.full(len(rows), relation), own.cpu().numpy()[columns]
            found = Discovery(relation, np.column_stack(ids), points, logits)
            best = best.merged(found.select(is_new(predictor, found.triples, loops)), most=most)
        yield _of_all(world, best, most)
        if progress is not None:
            progress(1)


def _of_all(world: World, own: Discovery, most: int | None) -> Discovery:
    """Return the best of all processes' to process 0."""
    parts = (
        send_to_first(world, "discovery", torch.from_numpy(part).to(world.device)).cpu().numpy()
        for part in (own.triples, own.scores, own.logits)
    )
    return Discovery.nothing(own.relation).merged(Discovery(own.relation, *parts), most=most)
