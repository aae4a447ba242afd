"""How likely it is that a triple which is not in the graph is true: from facts alone, by counting what is not.

Held-out facts show what missing facts look like, and the unknown pairs, counted, what everything else does. Each
pair is judged by a model that was fitted without it: held-out facts and pairs are split by a hash, and each part is
left out of one model. A line through the log-odds of parts left out undoes what shrinkage took. One offset makes all
probabilities sum to the number of missing facts, which follows from the graph's *completeness*, the share of all true
facts that it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.probability.additive import Additive, Basis, Sample, expit, fit_slopes
from staypositive.probability.counting import count_unknown
from staypositive.probability.evidence import FEATURES, OWN, Evidence
from staypositive.probability.labels import Labelled
from staypositive.probability.null_distribution import Floats, Ints
from staypositive.typed import misfit_of

ENOUGH_HELD_OUT = 50
"""Validation facts from which probabilities can be fitted."""
PARTS = 4
PAIRS_PER_RELATION, PAIRS_PER_FACT, PAIRS = 4000, 60, 150_000  # unknown pairs to look at; at most, of either kind
BENDS = (0.001, 0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9)  # of the map from log-odds of parts left out to what they hold
MAP_RIDGE = 2.0
LIMIT = 30.0  # of log-odds
LARGE_OFFSET = 0.7  # of log-odds, about a factor of two in the sum: something is amiss
MOST = 1e18  # facts or pairs that a file may claim
GRID = np.linspace(-LIMIT, LIMIT, 241)
STEPS = 128  # of the histogram of log-odds
REGIONS = (25, 50, 100, 200, 400, 800, 1600, 3200)  # held-out facts at the top, among which unknown pairs are counted
log = logging.getLogger(__name__)
Progress = Callable[[int], Any]


@dataclass(frozen=True)
class TriplePosterior:
    """Fitted probabilities of unknown triples.

    `pairs` has, by relation, how many unknown pairs have log-odds in each interval, and `held_out_of` the held-out
    facts.
    """

    name: ClassVar[str] = "counted"
    models: tuple[Additive, ...]
    mapped: Floats
    facts: int
    held_out: int
    missing: float
    offset: float
    most_missing: float
    held_out_of: Ints
    pairs: Floats
    judged: Labelled | None = None
    """What triples that somebody judged add; counts of what to expect are from before."""

    @classmethod
    def fit(
        cls,
        evidence: Evidence,
        train: Ints,
        held_out: Ints,
        *,
        completeness: float | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> TriplePosterior:
        """Fit to held-out facts, which the evidence knows, and to all pairs that it does not know.

        By default as many facts are missing as were held out, or fewer where the counts leave no room for more.
        """
        held_out = _distinct(held_out, evidence, train)
        if len(held_out) < ENOUGH_HELD_OUT:
            raise InputError(
                f"probabilities of unknown triples need at least {ENOUGH_HELD_OUT} validation facts that are not "
                f"training facts, and there are {len(held_out)}"
            )
        triples, weights = discovery_sample(evidence, held_out, seed, progress)
        every = np.concatenate([held_out, triples])
        is_fact = np.arange(len(every)) < len(held_out)
        whole = np.concatenate([np.ones(len(held_out)), weights])
        sample, part = Sample(evidence.features(every), every[:, 1], is_fact, whole), part_of(every)
        facts, n_relations = evidence.n_facts, evidence.n_relations
        missing = float(len(held_out)) if completeness is None else _missing(facts, completeness)
        fitted = cls._of_sample(sample, part, missing, facts, n_relations)
        if completeness is None and fitted.most_missing < missing:
            log.info(
                "the unknown pairs leave room for at most %.0f facts that look like held-out ones",
                fitted.most_missing,
            )
            fitted = cls._of_sample(sample, part, fitted.most_missing, facts, n_relations)
        if abs(fitted.offset) > LARGE_OFFSET and fitted.missing > ENOUGH_HELD_OUT:  # of few, a sum says little
            log.warning(
                "probabilities summed to %.0f facts before they were made to sum to %.0f: take them with care",
                fitted.sum_before_offset, fitted.missing,
            )  # fmt: skip
        return fitted

    @classmethod
    def _of_sample(cls, sample: Sample, part: Ints, missing: float, facts: int, n_relations: int) -> TriplePosterior:
        rho = missing / int(sample.is_fact.sum())
        own_columns = np.array([FEATURES.index(name) for name in OWN])
        model = Additive.blank(sample, rho, own_columns, n_relations)
        models, log_odds = [], np.empty(len(part))
        for held in range(PARTS):
            kept = part != held
            model = model.fitted(sample.select(kept), rho)  # from where the one before ended: most is shared
            models.append(model)
            log_odds[~kept] = model.log_odds(sample.features[~kept], sample.relations[~kept])
        mapped = _mapped(log_odds, sample, rho)
        log_odds = np.interp(log_odds, GRID, mapped)
        others = ~sample.is_fact
        place = ((log_odds[others] + LIMIT) / (2 * LIMIT) * STEPS).astype(np.int64).clip(0, STEPS - 1)
        pairs = np.bincount(sample.relations[others] * STEPS + place, sample.weights[others], n_relations * STEPS)
        fitted = cls(
            tuple(models), mapped, facts, int(sample.is_fact.sum()), missing, 0.0,
            _most_missing(log_odds, sample), np.bincount(sample.relations[sample.is_fact], minlength=n_relations),
            pairs.reshape(n_relations, STEPS).astype(np.float64),
        )  # fmt: skip
        return replace(fitted, offset=fitted._offset_for(missing))

    @property
    def completeness(self) -> float:
        """The share of all true facts that the graph is taken to have."""
        return self.facts / (self.facts + self.missing)

    def assuming(self, completeness: float) -> TriplePosterior:
        """Return the same with another share of true facts in the graph."""
        missing = _missing(self.facts, completeness)
        return replace(self, missing=missing, offset=self._offset_for(missing))

    def log_odds(self, evidence: Evidence, triples: Ints) -> Floats:
        """Return the log-odds that each triple, taken as unknown, is true, shape (n,)."""
        features = evidence.features(triples)
        found = self.of_features(features, triples)
        return found if self.judged is None else self.judged.apply_evidence(found, features, triples[:, 1])

    def of_features(self, features: Floats, triples: Ints) -> Floats:
        """Return log-odds of triples with these features, without what was judged."""
        part, found = part_of(triples), np.empty(len(triples))
        for number, model in enumerate(self.models):
            own = part == number
            found[own] = model.log_odds(features[own], triples[own, 1])
        return np.asarray(np.interp(found, GRID, self.mapped) + self.offset)

    def expected(self, least: float = 0.0) -> tuple[Floats, Floats]:
        """Return, by relation, facts to expect among pairs of at least a probability, and the number of pairs."""
        chances = expit(_middles() + self.offset)
        reached = self.pairs * (chances >= least)
        return reached @ chances, reached.sum(1)

    def expected_with_error(self) -> tuple[Floats, Floats]:
        """Return, by relation, the facts to expect among all unknown pairs, with standard errors.

        Each pair is true or not by chance, and what is expected is known as well as the number of held-out facts is.
        """
        chances = expit(_middles() + self.offset)
        new = self.pairs @ chances
        return new, np.sqrt(self.pairs @ (chances * (1 - chances)) + new**2 / (self.held_out_of + 1))

    @property
    def sum_before_offset(self) -> float:
        """What all probabilities sum to without the offset: far from `missing` where something is amiss."""
        return float((self.pairs @ expit(_middles())).sum())

    def _offset_for(self, missing: float) -> float:
        counts, middles = self.pairs.sum(0), _middles()
        low, high = -LIMIT, LIMIT
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if (counts * expit(middles + middle)).sum() >= missing else (middle, high)
        return low

    def misfit(self, n_relations: int) -> str:
        """Return what is wrong with what a file says, or an empty text."""
        wrong = next(filter(None, map(misfit_of, (self, *self.models, *(model.basis for model in self.models)))), "")
        if wrong:
            return f"cannot be: {wrong}"
        arrays = [self.mapped, self.pairs, *(array for model in self.models for array in model.arrays)]
        if not all(array.dtype == np.float64 and np.isfinite(array).all() for array in arrays):
            return "does not hold finite numbers throughout"
        shapes = [self.mapped.shape, self.pairs.shape, self.held_out_of.shape]
        if shapes != [GRID.shape, (n_relations, STEPS), (n_relations,)] or len(self.models) != PARTS:
            return "has parts of another shape"
        if not all(model.fits(len(FEATURES), n_relations) for model in self.models):
            return "has a model of other features or relations, or with numbers that are too large"
        numbers = [self.facts, self.held_out, self.missing, self.most_missing]
        for array in (self.pairs, self.held_out_of):
            numbers += [array.min(), array.max()]
        if not all(0 <= number <= MOST for number in numbers) or not self.missing:
            return "counts less than nothing, or more than any graph has"
        if not abs(self.offset) <= 2 * LIMIT:
            return "has an offset beyond all log-odds"
        return ""

    def judge(self, evidence: Evidence, triples: Ints, truth: NDArray[np.bool_]) -> TriplePosterior:
        """Return the same with what judged triples teach: proposed as unknown, and found true or false."""
        features = evidence.features(triples)
        log_odds = self.of_features(features, triples)
        judged = Labelled.fit_evidence(log_odds, features, triples[:, 1], truth, as_unknown=True)
        return replace(self, judged=judged)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, **_plain(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TriplePosterior:
        """Rebuild it from its JSON form; `ValueError` or `TypeError` where it is not one."""
        given = {key: value for key, value in data.items() if key != "name"}
        judged = given.pop("judged", None)
        models = tuple(
            Additive(**_arrays(model | {"basis": Basis(**_arrays(model["basis"]))})) for model in given.pop("models")
        )
        return cls(models=models, **_arrays(given), judged=None if judged is None else Labelled(**_tuples(judged)))


def part_of(triples: Ints) -> Ints:
    """Return which part each triple belongs to, by a hash of its ids, shape (n,)."""
    head, relation, tail = triples.astype(np.uint64).T
    mixed = (head * np.uint64(0x9E3779B97F4A7C15)) ^ (tail * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= relation * np.uint64(0x165667B19E3779F9)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed ^ (mixed >> np.uint64(29))) % np.uint64(PARTS), dtype=np.int64)


def _distinct(held_out: Ints, evidence: Evidence, train: Ints) -> Ints:
    held_out = np.unique(held_out, axis=0).reshape(-1, 3)
    return held_out[~np.isin(evidence.keys(held_out), evidence.keys(train))]


def discovery_sample(
    evidence: Evidence, held_out: Ints, seed: int = 0, progress: Progress | None = None
) -> tuple[Ints, Floats]:
    """Return unknown pairs of all relations that have facts, and how many each stands for.

    Relations with more held-out facts have more of them.
    """
    each = min(PAIRS_PER_RELATION, PAIRS / evidence.n_relations)
    wanted = each + min(PAIRS_PER_FACT, PAIRS / len(held_out)) * np.bincount(
        held_out[:, 1], minlength=evidence.n_relations
    )
    found = []
    for relation in np.flatnonzero(evidence.links.per_relation).tolist():
        found.append(count_unknown(evidence, relation, float(wanted[relation]), seed + relation))
        if progress is not None:
            progress(1)
    return np.concatenate([own.triples for own in found]), np.concatenate([own.weights for own in found])


def _missing(facts: int, completeness: float) -> float:
    if not 0 < completeness < 1:
        raise InputError(
            f"completeness is the share of true facts in the graph, between 0 and 1; got {completeness!r}"
        )
    return facts * (1 - completeness) / completeness


def _most_missing(log_odds: Floats, sample: Sample) -> float:
    """Return the most facts that can be missing, if they look like held-out ones: there are no more unknown pairs.

    Where the n most likely held-out facts lie, m unknown pairs do: at most m per n held-out facts are missing. Both
    are taken two standard deviations in favour of more.
    """
    facts, others = np.sort(log_odds[sample.is_fact])[::-1], ~sample.is_fact
    order = np.argsort(-log_odds[others], kind="stable")
    counts = np.cumsum(sample.weights[others][order])
    limits = []
    for size in (size for size in REGIONS if size <= len(facts)):
        above = int(np.searchsorted(-log_odds[others][order], -facts[size - 1], side="right"))
        unknown = float(counts[above - 1]) if above else 0.0
        limits.append((unknown + 2 * np.sqrt(unknown + 1)) / (size - 2 * np.sqrt(size)))
    return float(len(facts) * max(min(limits, default=np.inf), 1 / len(facts)))


def _middles() -> Floats:
    return (np.arange(STEPS) + 0.5) / STEPS * 2 * LIMIT - LIMIT


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in vars(value).items()} if hasattr(value, "__dict__") else value


def _tuples(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _tuples(value) for key, value in values.items() if key != "name"}
    return tuple(map(_tuples, values)) if isinstance(values, list) else values


def _arrays(values: dict[str, Any]) -> dict[str, Any]:
    whole = ("columns", "own_columns", "held_out_of")
    kinds: dict[str, Any] = {key: np.int64 if key in whole else np.float64 for key in values}
    return {
        key: np.array(value, dtype=kinds[key]) if isinstance(value, list) else value for key, value in values.items()
    }


def _mapped(log_odds: Floats, sample: Sample, rho: float) -> Floats:
    """Return what log-odds of parts left out should have been, at `GRID`, non-decreasing."""
    bends = np.log(BENDS) - np.log1p(-np.array(BENDS))

    def design(values: Floats) -> Floats:
        return np.column_stack([np.ones(len(values)), values, np.maximum(0, values[:, None] - bends)])

    clipped = log_odds.clip(-LIMIT, LIMIT)
    columns = design(clipped)
    penalty = np.full(columns.shape[1], MAP_RIDGE)
    penalty[0] = 0.01
    slopes = fit_slopes(columns, sample, rho, penalty, np.zeros(columns.shape[1]), clipped, 60)
    return np.asarray(np.maximum.accumulate(GRID + design(GRID) @ slopes).clip(-LIMIT, LIMIT))
