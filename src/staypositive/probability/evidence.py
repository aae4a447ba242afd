"""What tells true triples from other unknown ones: how their scores compare, and what known facts say of them.

A fact's own features are those that it would have if it were not known, so that held-out facts look just as facts do
that are missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.graph import triple_keys
from staypositive.models import RowMoments, Scorer
from staypositive.probability.links import CERTAIN, Links
from staypositive.probability.null_distribution import SIDES, Cache, Floats, Ints

FEATURES = (
    "z_tail", "z_head", "z", "score_tail", "score_head", "score", "rivals_tail", "rivals_head", "rivals",
    "rivals_least", "known_tail", "known_head", "answers_tail", "answers_head", "more_tail", "more_head", "more",
    "fit_tail", "fit_head", "fit_least", "degree_head", "degree_tail", "link", "linked", "density",
)  # fmt: skip
OWN = ("z", "rivals", "more_tail", "more_head", "answers_tail", "answers_head", "link")
"""The features of which each relation has slopes of its own."""
SCORES = 2**24  # held at once
OTHER = {"tail": "head", "head": "tail"}
HIDDEN = -1e30  # the score of what is no rival


class Question(NamedTuple):
    """What answers of questions are compared with, by question: shape (n,)."""

    mean: Floats  # of the scores of all entities, and their standard deviation
    std: Floats
    best: Floats  # score among members that are no known answers
    second: Floats
    best_id: Floats
    known: Floats  # sum of the scores of known answers
    fit: Floats  # log-odds, by its other roles, that the given entity has its role


class Evidence:
    """Features of triples, by the scores of a model and by facts that are known; questions are judged once."""

    def __init__(self, facts: Ints, scorer: Scorer, n_relations: int) -> None:
        self.scorer, self.n_relations = scorer.asked(), n_relations
        self.n_entities = scorer.n_entities
        self.links = Links(facts, self.n_entities, n_relations)
        self.moments = RowMoments.of(self.scorer.entity_rows)
        distinct = np.unique(facts[:, [1, 0, 2]], axis=0)[:, [1, 0, 2]]
        self._keys = np.unique(self.keys(facts))
        self._of = np.split(distinct, np.searchsorted(distinct[:, 1], np.arange(1, n_relations)))
        self._questions: Cache[Floats] = Cache(8 * len(Question._fields) * self.n_entities)
        self.density = np.log((self.links.per_relation + 0.5) / self.n_entities**2)

    def keys(self, triples: Ints) -> Ints:
        return triple_keys(triples, self.n_entities, self.n_relations)

    def holds(self, triples: Ints) -> NDArray[np.bool_]:
        keys = self.keys(triples)
        return np.asarray(self._keys[np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)] == keys)

    def members(self, relation: int, side: str) -> Ints:
        return np.unique(self._of[relation][:, SIDES[side]])

    @property
    def n_facts(self) -> int:
        return len(self._keys)

    def is_unknown(self, triples: Ints, relation: int) -> NDArray[np.bool_]:
        """Return which triples of a relation are no facts; no entity is paired with itself, unless facts are."""
        may_be = self.has_loops(relation) | (triples[:, 0] != triples[:, 2])
        return np.asarray(may_be & ~self.holds(triples))

    def has_loops(self, relation: int) -> bool:
        return bool((self._of[relation][:, 0] == self._of[relation][:, 2]).any())

    def queries(self, relation: int, given: Ints, side: str) -> Tensor:
        ids = torch.as_tensor(given, device=self.scorer.device)
        return self.scorer.queries(torch.stack([ids, torch.full_like(ids, relation), ids], dim=1), side)

    @torch.no_grad()
    def features(self, triples: Ints) -> Floats:
        """Return the features of triples, shape (n, features); a fact's own are those that it had as an unknown."""
        heads, relations, tails = triples.T
        links, own = self.links, self.holds(triples).astype(np.int64)
        in_roles = own * (heads != tails)
        z, score, over_best, over_known, answers, more, fit = np.empty((7, 2, len(triples)))
        for place, (side, column) in enumerate(SIDES.items()):
            given = tails if side == "head" else heads
            asked = np.empty((len(Question._fields), len(triples)))
            for relation in np.unique(relations).tolist():
                rows = np.flatnonzero(relations == relation)
                score[place, rows] = self._scores(triples[rows], relation, side)
                asked[:, rows] = self._asked(relation, side, given[rows])
            mean, std, best, second, best_id, known, own_fit = asked
            z[place] = np.arcsinh((score[place] - mean) / std)
            rival = np.where(best_id == triples[:, column], second, best)
            over_best[place] = score[place] - np.maximum(rival, mean - 3 * std)
            count = links.answers(relations, given, side) - own
            known_mean = (known - own * score[place]) / count.clip(min=1)
            over_known[place] = np.where(count > 0, score[place] - known_mean, 0.0)
            answers[place], more[place] = np.log1p(count), links.more_answers(relations, count, side)
            # Of an entity that has no such role it is asked whether it could; that of a fact alone does not count.
            alone = (count == 0) & (own > 0)
            own_fit[alone] = links.fitting(relations[alone], given[alone], OTHER[side], in_roles[alone])
            fit[1 - place] = np.where(count > 0, CERTAIN, own_fit)
        degrees = [np.log1p(links.degrees[entities] - own) for entities in (heads, tails)]
        link, linked = links.linked(triples, own)
        return np.column_stack([
            *z, z[0] + z[1], *score, score[0] + score[1], *over_best, over_best[0] + over_best[1],
            np.minimum(*over_best), *over_known, *answers, *more, more[0] + more[1], *fit, np.minimum(*fit),
            *degrees, np.where(linked, link + CERTAIN, 0.0), linked, self.density[relations],
        ])  # fmt: skip

    def _scores(self, triples: Ints, relation: int, side: str) -> Floats:
        """Return scores of one relation's triples, as a side is asked for, by queries for the fewer entities."""
        forms = (self.scorer if side == "tail" else self.scorer.swapped()).forms(relation)
        heads, tails = (np.unique(triples[:, column], return_inverse=True) for column in (0, 2))
        from_heads = len(heads[0]) <= len(tails[0])
        rows, (ids, places) = self.scorer.entity_rows, heads if from_heads else tails
        given, place, answer = (
            torch.as_tensor(part, device=rows.device) for part in (ids, places, triples[:, 2 if from_heads else 0])
        )
        queries = forms[0 if from_heads else 1](rows[given])
        if len(given) * self.n_entities <= 4 * len(triples):
            return np.asarray((queries @ rows.T)[place, answer].double().cpu().numpy())
        pieces = zip(*(part.split(max(1, SCORES // rows.shape[1])) for part in (place, answer)), strict=True)
        return np.asarray(torch.cat([(queries[p] * rows[a]).sum(1) for p, a in pieces]).double().cpu().numpy())

    def _asked(self, relation: int, side: str, given: Ints) -> Floats:
        """Return a `Question` for each given entity, formed where it has not been asked before."""
        kept = self._questions.get(
            (side, relation), lambda: np.full((len(Question._fields), self.n_entities), np.nan)
        )
        fresh = np.unique(given[np.isnan(kept[0, given])])
        if len(fresh):
            queries = self.queries(relation, fresh, side)
            mean, std = (part.double().cpu().numpy() for part in self.moments.of_scores(queries))
            fit = self.links.fitting(np.full_like(fresh, relation), fresh, OTHER[side], np.zeros_like(fresh))
            best, second, best_id, known = self._rivals(relation, fresh, queries, side)
            kept[:, fresh] = Question(mean, std, best, second, best_id, known, fit)
        return np.asarray(kept[:, given])

    def _rivals(self, relation: int, given: Ints, queries: Tensor, side: str) -> Floats:
        """Return, by question, the best two scores of members that are no known answers, with the best one's id.

        Then the sum of the known answers' scores.
        """
        asked, answered = (0, 2) if side == "tail" else (2, 0)
        members, facts = self.members(relation, side), self._of[relation]
        found = np.full((4, len(given)), HIDDEN)
        found[3] = 0.0
        if not len(members):
            return found
        row = np.searchsorted(given, facts[:, asked]).clip(max=len(given) - 1)
        here = given[row] == facts[:, asked]
        row, column = row[here], np.searchsorted(members, facts[here, answered])
        order = np.argsort(row, kind="stable")
        row, column = row[order], column[order]
        rows = self.scorer.entity_rows[torch.as_tensor(members, device=self.scorer.device)]
        step = max(1, SCORES // len(members))
        for start in range(0, len(given), step):
            scores = queries[start : start + step] @ rows.T
            first, last = np.searchsorted(row, [start, start + len(scores)])
            where = row[first:last] - start, column[first:last]
            np.add.at(found[3], row[first:last], scores[where].double().cpu().numpy())
            scores[where] = HIDDEN
            if not self.has_loops(relation):
                self_at = np.searchsorted(members, given[start : start + step]).clip(max=len(members) - 1)
                same = np.flatnonzero(members[self_at] == given[start : start + step])
                scores[same, self_at[same]] = HIDDEN
            values, places = scores.topk(min(2, len(members)), dim=1)
            found[: values.shape[1], start : start + step] = values.double().cpu().numpy().T
            found[2, start : start + step] = members[places[:, 0].cpu().numpy()]
        return found
