"""Making train, valid and test out of one set of facts, with every entity and relation kept in train."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import SettingError
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, assemble
from staypositive.graph.labelled import LabelledTriples

DEFAULT_SPLIT = (0.8, 0.1, 0.1)


def split_triples(
    name: str, stated: LabelledTriples, ratios: Sequence[float] = DEFAULT_SPLIT, seed: int = 0
) -> KnowledgeGraph:
    """Split triples at random by `ratios`.

    A fact that is the first to mention an entity or a relation goes to train, so nothing is unseen there; copies of
    one triple stay together, so nothing leaks. Triples labelled -1 are shared out between valid and test.
    """
    shares = _checked(ratios)
    if seed < 0:
        raise SettingError(f"a seed is a whole number from 0, got {seed}")
    draw = np.random.default_rng(seed)
    place = np.empty(len(stated), dtype=np.int8)
    whole = assemble(name, {"train": dataclasses.replace(stated, signs=None)}, ())
    _, copies = np.unique(whole.keys(whole.train.triples), return_inverse=True)
    true = np.full(len(place), True) if stated.signs is None else stated.signs > 0
    place[true] = _place_facts(whole.train.triples[true], copies[true], shares, draw)
    place[~true] = _place_negatives(copies[~true], shares, draw)
    parts = {split: stated.take(place == number) for number, split in enumerate(SPLITS)}
    parts["train"] = dataclasses.replace(parts["train"], signs=None)
    return assemble(name, parts, [stated.source], stated.remarks)


def _checked(ratios: Sequence[float]) -> NDArray[np.float64]:
    try:
        shares = np.asarray(ratios, dtype=np.float64)
    except ValueError:
        shares = np.empty(0)
    if shares.shape != (3,) or not np.isfinite(shares).all() or (shares < 0).any() or shares[0] <= 0:
        raise SettingError(f"a split is three shares such as 0.8,0.1,0.1, train first and above 0; got {ratios}")
    if abs(shares.sum() - 1) > 1e-6:
        raise SettingError(f"the shares of a split must add up to 1; {', '.join(map(str, ratios))} do not")
    return shares


def _place_facts(
    triples: NDArray[np.int64], copies: NDArray[np.int64], shares: NDArray[np.float64], draw: np.random.Generator
) -> NDArray[np.int64]:
    """Return 0, 1 or 2 (train, valid, test) for each fact; equal facts get equal places."""
    _, first, group = np.unique(copies, return_index=True, return_inverse=True)
    order = first[draw.permutation(len(first))]  # one copy of each fact, shuffled
    shuffled = triples[order]
    needed = np.zeros(len(order), dtype=bool)
    mentions = np.concatenate([shuffled[:, 0], shuffled[:, 2]])
    needed[np.unique(mentions, return_index=True)[1] % max(len(order), 1)] = True
    needed[np.unique(shuffled[:, 1], return_index=True)[1]] = True
    free = np.flatnonzero(~needed)
    valid, test = (round(share * len(order)) for share in shares[1:])
    held_out = min(valid + test, len(free))
    valid = round(held_out * valid / (valid + test)) if valid + test else 0
    by_order = np.zeros(len(order), dtype=np.int64)
    by_order[free[:valid]] = 1
    by_order[free[valid:held_out]] = 2
    place = np.empty(len(order), dtype=np.int64)
    place[group[order]] = by_order
    return place[group]


def _place_negatives(
    copies: NDArray[np.int64], shares: NDArray[np.float64], draw: np.random.Generator
) -> NDArray[np.int64]:
    if len(copies) and shares[1:].sum() == 0:
        raise SettingError("the file labels some triples -1, which belong in valid or test; give those a share")
    kinds, group = np.unique(copies, return_inverse=True)
    share = shares[1] / max(shares[1:].sum(), 1e-12)
    return np.where(draw.random(len(kinds)) < share, 1, 2)[group]
