"""A recommender is a graph with one relation: who likes what, learnt from likes alone.

Likes are drawn from known chances (power laws of activity and popularity, tastes in a few dimensions), so that every
answer can be held against the truth. Run it with `python examples/recommender.py`; it takes about a minute.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import staypositive as sp
from staypositive.run.provenance import code_commit, device_name

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
W0 = 0.1  # what a pair that nobody liked yet weighs, a like being 1
N3 = 0.09
EPOCHS = 20


@dataclass(frozen=True)
class Shop:
    """The chance that a user likes an item, and likes drawn from it: shape (users, items), and (n, 2) a split."""

    chance: Floats
    train: Ints
    valid: Ints
    test: Ints

    def mask(self, *splits: str) -> Mask:
        """Return which pairs some splits hold."""
        found = np.zeros(self.chance.shape, dtype=bool)
        for name in splits:
            found[tuple(getattr(self, name).T)] = True
        return found

    def graph(self, splits: tuple[str, ...] = ("train", "valid", "test")) -> sp.KnowledgeGraph:
        """Return the likes of some splits as triples (user, likes, item), items numbered after users."""
        users, items = self.chance.shape
        names = [*(f"user {u}" for u in range(users)), *(f"item {i}" for i in range(items))]

        def split(name: str) -> sp.Split:
            pairs: Ints = getattr(self, name) if name in splits else np.empty((0, 2), dtype=np.int64)
            return sp.Split(np.column_stack([pairs[:, 0], np.zeros_like(pairs[:, 0]), pairs[:, 1] + users]))

        entities, relations = sp.Vocabulary("entity", names), sp.Vocabulary("relation", ["likes"])
        return sp.KnowledgeGraph("shop", entities, relations, split("train"), split("valid"), split("test"))


def plant(users: int = 5000, items: int = 2000, tastes: int = 12, seed: int = 0) -> Shop:
    """Draw a shop; a user likes about 40 items, few users hundreds, and few items are liked by most."""
    draw = np.random.default_rng(seed)
    match = draw.standard_normal((users, tastes)) @ draw.standard_normal((tastes, items)) / math.sqrt(tastes)
    popularity = (10 + draw.permutation(items)) ** -0.8
    share = popularity * np.exp(1.5 * match)
    activity = np.minimum(20 * (1 + draw.pareto(2.0, users)), items / 4)
    chance = 1 - np.exp(-share / share.sum(1, keepdims=True) * activity[:, None])
    pairs = draw.permutation(np.argwhere(draw.random(chance.shape) < chance))
    cut, half = int(0.8 * len(pairs)), int(0.9 * len(pairs))
    return Shop(chance, pairs[:cut], pairs[cut:half], pairs[half:])


def train(shop: Shop, dim: int, epochs: int, seed: int = 0) -> sp.Run:
    """Factorise: CP keeps who one is as a head apart from what one is as a tail, so users never meet users.

    Every pair that is no like weighs W0; nothing is drawn. There is one relation, so it need not be asked for.
    """
    return sp.fit(
        shop.graph(), model="cp", objective="second-moment", weighting="all", unobserved_weight=W0, dim=dim,
        epochs=epochs, batch_size=8192, relation_weight=0.0, head_weight=0.0, reciprocal=False, n3=N3, seed=seed,
        init_scale=0.3, validate_every=epochs, device="cpu",
    )  # fmt: skip


def scores_of(run: sp.Run, shop: Shop) -> Floats:
    """Return the score of every item for every user."""
    users, _ = shop.chance.shape
    heads = torch.arange(users)
    scores: Floats = run.predictor.scorer.tails(heads, torch.zeros_like(heads))[:, users:].double().numpy()
    return scores


def factors(shop: Shop, dim: int, sweeps: int = 8, l2: float = 10.0, seed: int = 0) -> tuple[Floats, Floats]:
    """Return users and items by alternating least squares on the same loss, with L2 for N3 (iALS, Hu et al. 2008)."""
    likes = shop.mask("train")
    draw = np.random.default_rng(seed)
    items = draw.standard_normal((likes.shape[1], dim)) * 0.1

    def solve(liked: Mask, others: Floats) -> Floats:
        gram = W0 * others.T @ others + l2 * np.eye(dim)
        own = [others[row] for row in liked]
        return np.stack([np.linalg.solve(gram + (1 - W0) * v.T @ v, v.sum(0)) for v in own])

    for _ in range(sweeps):
        users = solve(likes, items)
        items = solve(likes.T, users)
    return users, items


def measure(scores: Floats, shop: Shop) -> dict[str, float]:
    """Return recall@20 and NDCG@100 of the held-out likes, known ones left out, as means over users who have any."""
    held = shop.mask("test")
    asked = held.any(1)
    ranked = np.where(shop.mask("train", "valid"), -np.inf, scores)[asked]
    hits = np.take_along_axis(held[asked], np.argsort(-ranked, axis=1)[:, :100], axis=1)
    count = held[asked].sum(1)
    gains = 1 / np.log2(np.arange(2, 102))
    best = np.cumsum(gains)[np.minimum(count, 100) - 1]
    return {
        "recall@20": float((hits[:, :20].sum(1) / np.minimum(count, 20)).mean()),
        "NDCG@100": float((hits @ gains[: hits.shape[1]] / best).mean()),
    }


def compare(shop: Shop, run: sp.Run, dim: int) -> dict[str, dict[str, float]]:
    """Return how well popularity, ALS, the run and the true chances rank."""
    popularity = np.broadcast_to(np.bincount(shop.train[:, 1], minlength=shop.chance.shape[1]), shop.chance.shape)
    users, items = factors(shop, dim)
    ranked = {"popularity": popularity, "iALS": users @ items.T, "second moment": scores_of(run, shop)}
    return {name: measure(scores, shop) for name, scores in (ranked | {"the truth": shop.chance}).items()}


def main() -> None:
    """Plant, train, compare, then ask for one user: probabilities, and a set that holds the next like."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, default=5000)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rows", help="write the figures to this CSV, for `python -m experiments results add`")
    chosen = parser.parse_args()
    shop = plant(chosen.users, chosen.items)
    print(f"{chosen.users:,} users, {chosen.items:,} items, {len(shop.train):,} likes to learn from")
    start = time.perf_counter()
    run = train(shop, chosen.dim, chosen.epochs)
    print(f"trained in {time.perf_counter() - start:.0f} s, without drawing a pair\n")
    print(f"{'':14}recall@20  NDCG@100")
    figures = compare(shop, run, chosen.dim)
    for name, found in figures.items():
        print(f"{name:14}{found['recall@20']:9.3f}{found['NDCG@100']:10.3f}")
    figures["second moment"] |= ask(shop, run)
    if chosen.rows:
        common = {
            "experiment": "recommender", "dataset": "planted likes", "dim": chosen.dim, "seed": 0, "split": "test",
            "negatives_drawn": 0, "selected_on": "valid", "device": device_name(run.model.entities.device),
            "version": sp.__version__, "commit": code_commit(), "command": "python examples/recommender.py",
        }  # fmt: skip
        rows = [
            common | {"model": name, "metric": metric, "value": float(value)}
            for name, found in figures.items()
            for metric, value in found.items()
        ]
        pd.DataFrame(rows).to_csv(chosen.rows, index=False, float_format="%.6g")


def next_likes(shop: Shop, run: sp.Run, user: int, top: int = 5) -> tuple[list[int], Floats, Floats]:
    """Return the items that a user may like next, how likely the run says that is, and how likely it is."""
    answers = run.predict(head=f"user {user}", relation="likes", top=top, candidates="range", exclude_known=True)
    items = [int(label.split()[1]) for label in answers["tail"]]
    chance = shop.chance[user, items]
    return items, answers["probability"].to_numpy(), chance * 0.1 / (1 - 0.9 * chance)  # given that it is still new


def ask(shop: Shop, run: sp.Run, user: int = 0) -> dict[str, float]:
    """Print probabilities beside the true ones, for one user and for many, and a prediction set; return the means.

    The graph that is asked lacks the likes of test: as many as validation holds, which is what calibration assumes.
    """
    asked = replace(run, graph=shop.graph(("train", "valid")))
    asked.calibrate()
    print(f"\nuser {user}, next      probability   true chance")
    for item, said, true in zip(*next_likes(shop, asked, user), strict=True):
        print(f"item {item:<13}{said:13.3f}{true:14.3f}")
    many = [next_likes(shop, asked, one) for one in range(100)]
    means = {name: float(np.mean([m[place] for m in many])) for place, name in ((1, "said"), (2, "true"))}
    print(f"100 users, mean   {means['said']:13.3f}{means['true']:14.3f}")
    size = len(run.prediction_set(head=f"user {user}", relation="likes", coverage=0.8))
    found = run.measure_prediction_sets("test", 0.8)["tail"]
    print(f"\nuser {user}'s prediction set at 80%: {size} of {shop.chance.shape[1]} items")
    print(f"all held-out likes: {found['coverage']:.1%} inside, {found['median_size']:.0f} items in the median")
    return means | {"coverage": found["coverage"], "median_size": found["median_size"]}


if __name__ == "__main__":
    main()
