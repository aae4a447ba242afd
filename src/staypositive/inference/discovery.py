"""New triples over the whole graph that are likely, found relation by relation without ever holding |E|² scores.

Heads come from a relation's training domain and tails from its range, unless all entities are wanted. A calibrator of
logits turns the wanted probability into a score, and only pairs above it are kept; one that looks at null
distributions judges each pair, in pieces.
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
from staypositive.inference.ordering import TOLERANCE, Floats, Ints, best_first, reaches
from staypositive.inference.predictor import Predictor
from staypositive.models import logit
from staypositive.probability import FeatureCalibrator
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd

PIECE = 2**22  # pairs judged at once
COLUMNS = ["head", "relation", "tail", "probability", "score"]


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
        return every.select(best_first(every.logits, every.scores, every.triples)[:most])


@checked
def discover(
    predictor: Predictor,
    *,
    min_probability: float = 0.9,
    prior: float | None = None,
    relations: Iterable[int] | None = None,
    all_pairs: bool = False,
    most: int | None = None,
    piece: int = PIECE,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[Discovery]:
    """Yield, for each relation in turn, the triples that are no facts and reach the probability.

    `all_pairs` takes all entities for heads and tails, rather than those that training facts have there. An entity
    is not paired with itself, unless the relation has such facts. `most` limits how many of each relation are kept,
    the most likely; no more than that and a piece is ever held.
    """
    if not 0 < min_probability < 1:
        raise InputError(f"min_probability is between 0 and 1, got {min_probability}")
    graph = predictor.graph
    for relation in range(len(graph.relations)) if relations is None else relations:
        heads, tails, loops = pairs_of(graph, relation, all_pairs, predictor.scorer.device)
        best = Discovery.nothing(relation)
        for part in heads.split(max(1, piece // max(1, len(tails)))) if len(tails) else ():
            found = _likely_pairs(predictor, part, relation, tails, min_probability, prior)
            best = best.merged(found.select(is_new(predictor, found.triples, loops)), most=most)
        yield best
        if progress is not None:
            progress(1)


def pairs_of(
    graph: KnowledgeGraph, relation: int, all_pairs: bool, device: torch.device
) -> tuple[Tensor, Tensor, bool]:
    """Return the heads and tails to pair for a relation, and whether it has facts of an entity about itself."""
    facts = graph.train.facts[graph.train.facts[:, 1] == relation]
    sides = (np.arange(len(graph.entities)),) * 2 if all_pairs else (np.unique(facts[:, 0]), np.unique(facts[:, 2]))
    heads, tails = (torch.as_tensor(side, device=device) for side in sides)
    return heads, tails, bool((facts[:, 0] == facts[:, 2]).any())


def is_new(predictor: Predictor, triples: Ints, loops: bool) -> NDArray[np.bool_]:
    """Return which triples are no fact of any split and, unless `loops`, pair two different entities."""
    may_be: NDArray[np.bool_] = loops | (triples[:, 0] != triples[:, 2])
    return may_be & ~predictor.is_known(triples)


@torch.no_grad()
def _likely_pairs(
    predictor: Predictor, heads: Tensor, relation: int, tails: Tensor, probability: float, prior: float | None
) -> Discovery:
    scores = predictor.scorer.pairs(heads, relation, tails)
    if isinstance(predictor.calibrator, FeatureCalibrator):
        logits = predictor.pair_logits(heads, relation, tails, prior)
        chosen = np.flatnonzero(reaches(logits, logit(probability)))
        values, points = logits[chosen], scores.reshape(-1).cpu().numpy()[chosen]
    else:
        values, points, chosen = likely_by_score(predictor, scores, probability, prior)
    rows, columns = np.divmod(chosen, len(tails))
    triples = np.column_stack(
        [heads.cpu().numpy()[rows], np.full(len(rows), relation, dtype=np.int64), tails.cpu().numpy()[columns]]
    )
    return Discovery(relation, triples, points, values)


def likely_by_score(
    predictor: Predictor, scores: Tensor, probability: float, prior: float | None
) -> tuple[Floats, Floats, Ints]:
    """Return log-odds, scores and places (counted along rows) of the scores that reach the probability."""
    limit = predictor.score_at(probability, prior)
    slack = 4 * TOLERANCE * (1 + abs(limit)) if np.isfinite(limit) else 0.0
    places = torch.nonzero(scores.reshape(-1) >= limit - slack)[:, 0]
    points: Floats = scores.reshape(-1)[places].cpu().numpy()
    logits = predictor.logits(points, prior)
    keep = reaches(logits, logit(probability))
    return logits[keep], points[keep], places.cpu().numpy()[keep]


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


def discovery_table(
    predictor: Predictor, found: Iterable[Discovery], prior: float | None = None, top: int | None = None
) -> pd.DataFrame:
    """Return by label what was found, with probability and score, or the `top` best of it, most likely first."""
    best = Discovery.nothing(0).merged(*found, most=top)
    rows = np.pad(best.triples, ((0, 0), (2, 0)))  # a query and a rank, which are left out again
    table: pd.DataFrame = predictor.table(rows, best.scores, prior)[COLUMNS]
    return table
