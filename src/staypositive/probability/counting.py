"""The null distribution of a relation, counted: all of its unknown pairs with high scores, a sample of the rest.

A pair is drawn with a chance that grows with its scores and with how many more answers its questions should have, up
to 1. So pairs that look like facts are all there, and each of the others stands for as many as its chance says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from staypositive.probability.evidence import Evidence
from staypositive.probability.null_distribution import Floats, Ints

PRODUCTS = 1e12  # multiplications, about, that pairs of all relations may take
LINKED = -3.0  # log-odds by other facts of its entities from which a pair is always looked at
EVEN = 0.3  # share of the pairs looked at that is spread evenly
OUTSIDE = 0.3  # of the pairs looked at, for each kind of pairs with entities that hardly fit
FEWEST = 64  # heads of which these are looked at
BLOCK = 2**22  # pairs at once


@dataclass(frozen=True)
class Counted:
    """Unknown pairs of a relation, shape (n, 3), and how many each stands for."""

    triples: Ints
    weights: Floats


@torch.no_grad()
def count_unknown(evidence: Evidence, relation: int, wanted: float, seed: int) -> Counted:
    """Return about `wanted` of a relation's unknown pairs, and all that other facts of their entities suggest."""
    draw = torch.Generator().manual_seed(seed)
    most = _most_members(evidence)
    heads, tails = (_likely_members(evidence, relation, side, most) for side in ("head", "tail"))
    parts = [_by_score(_Questions(evidence, relation, heads, tails), wanted, draw)]
    other_heads, other_tails = (np.setdiff1d(np.arange(evidence.n_entities), own) for own in (heads, tails))
    for some_heads, some_tails in ((heads, other_tails), (other_heads, tails), (other_heads, other_tails)):
        if len(some_heads) and len(some_tails):
            columns = _some(some_tails, 4 * most, draw)
            rows = _some(some_heads, most**2 // 3 // len(columns), draw)
            found, weights = _by_score(_Questions(evidence, relation, rows, columns), OUTSIDE * wanted, draw)
            parts.append((found, weights * (len(some_heads) / len(rows) * len(some_tails) / len(columns))))
    pairs, weights = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    linked = np.stack(evidence.links.likely_pairs(relation, LINKED))
    code = np.array([evidence.n_entities, 1])
    fresh = ~np.isin(code @ pairs, code @ linked)
    pairs = np.concatenate([pairs[:, fresh], linked], axis=1)
    weights = np.concatenate([weights[fresh], np.ones(linked.shape[1])])
    triples = np.column_stack([pairs[0], np.full(pairs.shape[1], relation), pairs[1]])
    unknown = evidence.is_unknown(triples, relation)
    return Counted(triples[unknown], weights[unknown])


def _most_members(evidence: Evidence) -> int:
    """Return how many entities of either side of each relation all pairs can be looked at of."""
    return int((PRODUCTS / (evidence.n_relations * 4 * evidence.scorer.entity_rows.shape[1])) ** 0.5)


def _some(entities: Ints, most: int, draw: torch.Generator) -> Ints:
    """Return some entities, drawn where there are more."""
    places = torch.randperm(len(entities), generator=draw)[: max(most, FEWEST)]
    return np.asarray(entities[np.sort(places.numpy())])


def _likely_members(evidence: Evidence, relation: int, side: str, most: int) -> Ints:
    """Return the entities that facts have on a side of a relation, and others that fit there, up to `most`."""
    every, own = np.arange(evidence.n_entities), evidence.members(relation, side)
    if len(every) <= most:
        return every
    fit = evidence.links.fitting(np.full_like(every, relation), every, side, np.zeros_like(every))
    fit[own] = np.inf
    return np.sort(np.argsort(-fit, kind="stable")[: max(most, len(own))])


class _Questions:
    """What makes pairs of heads × tails likely, by their scores and questions: the logarithm of a chance."""

    def __init__(self, evidence: Evidence, relation: int, heads: Ints, tails: Ints) -> None:
        self.heads, self.tails = heads, tails
        rows = evidence.scorer.entity_rows
        self.rows = {
            side: rows[torch.as_tensor(own, device=rows.device)].float()
            for side, own in (("tail", tails), ("head", heads))
        }
        self.queries, self.base = {}, {}
        for side, given in (("tail", heads), ("head", tails)):
            queries = evidence.queries(relation, given, side)
            mean, std = evidence.moments.of_scores(queries)
            relations = np.full_like(given, relation)
            more = evidence.links.more_answers(relations, evidence.links.answers(relations, given, side), side)
            self.queries[side] = (queries / std[:, None]).float()
            self.base[side] = (torch.as_tensor(more, device=rows.device) - mean / std).float()

    def lines(self, first: int, last: int) -> Tensor:
        """Return logarithms of what is in proportion to the chances of the pairs of some heads with all tails."""
        found = self.queries["tail"][first:last] @ self.rows["tail"].T + self.base["tail"][first:last, None]
        found += self.rows["head"][first:last] @ self.queries["head"].T
        found += self.base["head"]
        return found.mul_(0.5)

    def chances(self, first: int, last: int) -> Tensor:
        return self.lines(first, last).clamp_(max=20).exp_()


@torch.no_grad()
def likely_pairs(evidence: Evidence, relation: int, most: int) -> Ints:
    """Return the pairs of a relation, shape (n, 3), that look most like facts: `most` by score, and linked ones."""
    most_members = _most_members(evidence)
    heads, tails = (_likely_members(evidence, relation, side, most_members) for side in ("head", "tail"))
    asked = _Questions(evidence, relation, heads, tails)
    step, values = max(1, BLOCK // len(tails)), torch.empty(0, device=evidence.scorer.device)
    places = torch.empty(0, dtype=torch.long, device=values.device)
    for first in range(0, len(heads), step):
        lines = asked.lines(first, first + step).reshape(-1)
        found = lines.topk(min(most, len(lines)))
        values, places = torch.cat([values, found.values]), torch.cat([places, found.indices + first * len(tails)])
        kept = values.topk(min(most, len(values))).indices
        values, places = values[kept], places[kept]
    rows, columns = np.divmod(places.cpu().numpy(), len(tails))
    pairs = np.stack([heads[rows], tails[columns]])
    linked = np.stack(evidence.links.likely_pairs(relation, LINKED))
    every = np.unique(np.concatenate([pairs, linked], axis=1), axis=1)
    return np.column_stack([every[0], np.full(every.shape[1], relation), every[1]])


def _by_score(asked: _Questions, wanted: float, draw: torch.Generator) -> tuple[Ints, Floats]:
    n_heads, n_tails = len(asked.heads), len(asked.tails)
    looked = torch.randperm(n_heads, generator=draw)[:64].tolist()
    seen = torch.cat([asked.chances(i, i + 1)[0] for i in looked]).double()
    factor = _factor(seen, (1 - EVEN) * wanted * len(looked) / n_heads)
    even, pairs, weights = EVEN * wanted / (n_heads * n_tails), [], []
    step = max(1, BLOCK // n_tails)
    for first in range(0, n_heads, step):
        chances = asked.chances(first, first + step).mul_(factor).add_(even).cpu()
        heads, tails = torch.nonzero(torch.rand(chances.shape, generator=draw) < chances, as_tuple=True)
        pairs.append(np.stack([asked.heads[first + heads.numpy()], asked.tails[tails.numpy()]]))
        weights.append(1 / chances[heads, tails].clamp(max=1).double().numpy())
    return np.concatenate(pairs, axis=1), np.concatenate(weights)


def _factor(values: Tensor, wanted: float) -> float:
    """Return the factor at which values, none above 1, sum to what is wanted."""
    low, high = -60.0, 60.0
    for _ in range(50):
        middle = (low + high) / 2
        enough = float((values * np.exp(middle)).clamp(max=1).sum()) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return float(np.exp(low))
