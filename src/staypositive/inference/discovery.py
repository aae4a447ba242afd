"""New triples over the whole graph that are likely, found relation by relation without ever holding |E|² scores.

The pairs of a relation that look most like facts, by score and by the other facts of their entities, are judged by
the triple posterior. Without one, there are scores alone: the best pairs of a relation's training domain and range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.inference.ordering import Floats, Ints, best_first, reaches
from staypositive.inference.predictor import Found, Predictor
from staypositive.models import logit
from staypositive.probability import TriplePosterior, likely_pairs
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd

PIECE = 2**22  # pairs scored at once
LIKELY = 0.5  # the least probability of what is found, unless another is asked for
JUDGED = 5000  # pairs of a relation that are judged, and five for each that should reach the probability


@dataclass(frozen=True)
class Discovery:
    """New triples of one relation, by ids, most likely first, with their scores and log-odds."""

    relation: int
    triples: Ints
    scores: Floats
    logits: Floats

    @classmethod
    def nothing(cls, relation: int) -> Discovery:
        return cls(relation, np.empty((0, 3), dtype=np.int64), np.empty(0), np.empty(0))

    def select(self, keep: NDArray[np.bool_] | Ints) -> Discovery:
        return Discovery(self.relation, self.triples[keep], self.scores[keep], self.logits[keep])

    def merged(self, *others: Discovery, most: int | None) -> Discovery:
        """Return the best of all that was found, most likely first."""
        names = ("triples", "scores", "logits")
        every = Discovery(self.relation, *(np.concatenate([getattr(p, n) for p in (self, *others)]) for n in names))
        return every.select(best_first(np.nan_to_num(every.logits), every.scores, every.triples)[:most])


@checked
def discover(
    predictor: Predictor,
    *,
    min_probability: float | None = None,
    relations: Iterable[int] | None = None,
    most: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[Discovery]:
    """Yield, for each relation in turn, the triples that are no facts and reach the probability, by default ½.

    An entity is not paired with itself, unless the relation has such facts. `most` limits how many of each relation
    are kept, the most likely. Where there are no probabilities, these are the best by score.
    """
    least = require_probability(predictor, min_probability, most)
    for relation in range(len(predictor.graph.relations)) if relations is None else relations:
        if predictor.posterior is None:
            assert most is not None
            yield best_by_score(predictor, relation, most)
        else:
            yield _likely(predictor, predictor.posterior, relation, least).merged(most=most)
        if progress is not None:
            progress(1)


def require_probability(predictor: Predictor, min_probability: float | None, most: int | None) -> float:
    """Return the least probability that is searched for; an `InputError` where there is nothing to search by."""
    if min_probability is not None and not 0 < min_probability < 1:
        raise InputError(f"min_probability is between 0 and 1, got {min_probability}")
    if predictor.posterior is None and (most is None or min_probability is not None):
        raise InputError(
            "this run has no probabilities, only scores: ask for a number of triples by `top`, without a "
            "min_probability, and the best by score are given"
        )
    return LIKELY if min_probability is None else min_probability


def _likely(predictor: Predictor, posterior: TriplePosterior, relation: int, least: float) -> Discovery:
    evidence = predictor.evidence
    if not len(evidence.members(relation, "tail")):
        return Discovery.nothing(relation)
    expected = float(posterior.expected(least)[1][relation])
    pairs = likely_pairs(evidence, relation, JUDGED + int(5 * expected))
    pairs = pairs[evidence.is_unknown(pairs, relation)]
    log_odds = predictor.log_odds(pairs)
    keep = reaches(log_odds, logit(least))
    pairs = pairs[keep]
    return Discovery(relation, pairs, predictor.score(pairs), log_odds[keep])


@torch.no_grad()
def best_by_score(predictor: Predictor, relation: int, most: int) -> Discovery:
    """Return the new pairs of a relation's training domain and range with the best scores."""
    heads, tails, loops = pairs_of(predictor.graph, relation, predictor.scorer.device)
    best = Discovery.nothing(relation)
    for part in heads.split(max(1, PIECE // max(1, len(tails)))) if len(tails) else ():
        scores = predictor.scorer.pairs(part, relation, tails)
        best = best.merged(new_by_score(predictor, scores, part, relation, tails, loops, most), most=most)
    return best


def new_by_score(
    predictor: Predictor, scores: Tensor, heads: Tensor, relation: int, tails: Tensor, loops: bool, most: int
) -> Discovery:
    """Return the pairs of heads × tails with the best scores that are new; their log-odds are unknown, NaN."""
    facts = predictor.graph.facts()
    spare = int((facts[:, 1] == relation).sum()) + len(heads)  # what may have to be left out: facts, and loops
    flat = scores.reshape(-1)
    places = flat.topk(min(most + spare, len(flat))).indices
    rows, columns = np.divmod(places.cpu().numpy(), max(1, len(tails)))
    ids = heads.cpu().numpy()[rows], np.full(len(rows), relation), tails.cpu().numpy()[columns]
    triples = np.column_stack(ids).astype(np.int64)
    found = Discovery(relation, triples, flat[places].double().cpu().numpy(), np.full(len(triples), np.nan))
    return found.select(is_new(predictor, triples, loops)).merged(most=most)


def pairs_of(graph: KnowledgeGraph, relation: int, device: torch.device) -> tuple[Tensor, Tensor, bool]:
    """Return a relation's training domain and range, and whether it has facts of an entity about itself."""
    facts = graph.train.facts[graph.train.facts[:, 1] == relation]
    heads, tails = (torch.as_tensor(np.unique(facts[:, side]), device=device) for side in (0, 2))
    return heads, tails, bool((facts[:, 0] == facts[:, 2]).any())


def is_new(predictor: Predictor, triples: Ints, loops: bool) -> NDArray[np.bool_]:
    """Return which triples are no fact of any split and, unless `loops`, pair two different entities."""
    may_be: NDArray[np.bool_] = loops | (triples[:, 0] != triples[:, 2])
    return may_be & ~predictor.is_known(triples)


class PartialDiscovery:
    """What was found of each relation: in memory, or in a folder, from which a search for the same thing resumes.

    `asked` says what is searched for; results of another search are removed.
    """

    def __init__(self, folder: Path | None, asked: dict[str, Any]) -> None:
        self.folder, self.asked = folder, json.loads(json.dumps(asked))
        self.found: dict[int, Discovery] = {}
        if self.folder is not None:
            self._resume(self.folder)

    def add(self, found: Discovery) -> None:
        self.found[found.relation] = found
        if self.folder is not None:
            rows = np.column_stack([found.triples, found.scores, found.logits])  # ids fit in 64-bit floats
            write_atomic(self.folder / f"{found.relation}.bin", rows.astype("<f8").tobytes())

    def remove(self) -> None:
        """Remove the partial results; other files in their folder stay."""
        if self.folder is not None:
            self._clear(self.folder)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _resume(self, folder: Path) -> None:
        if folder.is_symlink():
            raise InputError(f"{folder} is a link, and nothing is written to linked folders; remove it")
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "asked.json"
        try:
            if note in _own(folder, r"asked\.json") and json.loads(note.read_bytes()) == self.asked:
                self.found = {int(path.stem): _read(path) for path in _own(folder, r"\d+\.bin")}
                return
        except (OSError, ValueError, RecursionError):  # none yet, or not as we write them
            pass
        self._clear(folder)
        write_atomic(note, json.dumps(self.asked))

    @staticmethod
    def _clear(folder: Path) -> None:
        for path in _own(folder, r"asked\.json|\d+\.bin|\..*\.part"):
            path.unlink()


def _read(path: Path) -> Discovery:
    rows = np.frombuffer(path.read_bytes(), dtype="<f8").reshape(-1, 5)
    return Discovery(int(path.stem), rows[:, :3].astype(np.int64), rows[:, 3], rows[:, 4])


def _own(folder: Path, names: str) -> list[Path]:
    """Return the plain files of some names in a folder."""
    found = (path for path in folder.iterdir() if re.fullmatch(names, path.name))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def discovery_table(predictor: Predictor, found: Iterable[Discovery], top: int | None = None) -> pd.DataFrame:
    """Return by label what was found, with probability and score, or the `top` best of it, best first."""
    best = Discovery.nothing(0).merged(*found, most=top)
    rows = np.pad(best.triples, ((0, 0), (2, 0)))  # a query and a rank, which are left out again
    return predictor.table(Found(rows, best.scores, best.logits)).drop(columns=["query", "rank", "known"])
