"""Past the paper: facts at score 1, everything else towards 0, by the sum of all *squared* scores in closed form.

For a query q the squared scores of all entities add up to qᵀGq, G = Σ t tᵀ the Gram matrix of the entity rows. So
least squares over every triple there is (Hu et al. 2008 for one relation) cost no enumeration and no drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from staypositive.models import BilinearModel
from staypositive.models.hashing import keep_mask, mix_all
from staypositive.objectives.objective import ENOUGH_FACTS, Batch, Defaults, Objective, n3_penalty
from staypositive.objectives.statistics import Candidates, Statistic
from staypositive.options import Applies, option

WEIGHTINGS = ("triple", "query", "all")
FLOOR = 0.01
"""Added to a fact's share φ/√Σφ² in the likelihood, so that a share of nothing costs log 100."""
TINY = 1e-12


@dataclass(frozen=True)
class SecondMoment(Objective):
    """Mean over facts of (1−φ)² − w0·φ² + w0·qᵀGq, for tails, heads and relations, + N3.

    qᵀGq sums φ² over all answers of a query, the fact's own among them: − w0·φ² takes that out again. A direction's
    query counts once for each of its facts (`triple`), once in all (`query`), or every triple that is no fact weighs
    w0 (`all`), whether its query has facts or not. `likelihood_weight` adds −log(φ/√Σφ²): the likelihood of the fact
    among its query's answers, were they drawn by squared scores (as in Loconte et al. 2023). Heads are asked for
    through reciprocal relations, or, without them, explicitly. Dropout acts on the rows that queries are made from.
    No negative is ever drawn.
    """

    name: ClassVar[str] = "second-moment"
    defaults: ClassVar[Defaults] = Defaults(bound="identity", init_scale=1e-3, accumulator=1e-10, monitor="mrr")
    averages: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = False
    target_score: ClassVar[float] = 1.0
    averaged_options: ClassVar[tuple[str, ...]] = ("unobserved_weight",)
    statistic = Statistic.GRAM
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"low": 0.03, "high": 0.3, "log": True},
        "unobserved_weight": {"low": 1e-4, "high": 3e-2, "log": True},
        "relation_weight": {"low": 0.0, "high": 1.0},
        "n3": {"low": 1e-3, "high": 0.1, "log": True},
    }

    unobserved_weight: float = option(3e-3, "weight w0 of an unobserved triple, relative to facts", least=0)
    relation_weight: float = option(0.3, "weight of relation prediction, relative to entities", least=0)
    relation_unobserved_weight: float = option(
        0.1,
        "w0 of relation prediction",
        least=0,
        applies=Applies("a relation_weight above 0", "relation_weight", lambda own: own.relation_weight > 0),
    )
    head_weight: float = option(
        1.0,
        "weight of head prediction",
        least=0,
        applies=Applies("reciprocal=False (--no-reciprocal)", "reciprocal", lambda own: not own.reciprocal),
    )
    weighting: str = option(
        "triple", "a query counts once per fact, once in all, or all triples weigh alike", choices=WEIGHTINGS
    )
    relation_power: float = option(
        0.0, "facts weigh (number of facts of their relation)^-this, with mean 1", least=-10, most=10
    )
    n3: float = option(0.01, "weight of the N3 penalty on the facts' rows", least=0)
    n3_power: float = option(
        0.0,
        "entities' N3 weighs (number of facts they are in)^-this, with mean 1",
        least=-10,
        most=10,
        applies=Applies("an n3 above 0", "n3", lambda own: own.n3 > 0),
    )
    likelihood_weight: float = option(
        0.0, "weight of -log(φ/√Σφ²): each fact's share among all answers of its query, by squared scores", least=0
    )
    gram_update_interval: int = option(
        1, "steps after which rows outside the batches take what G says of them; 1 is exact, more is cheaper", least=1
    )
    reciprocal: bool = option(
        True, "learn each fact backwards too, in place of asking for heads", choices=(True, False)
    )

    @property
    def spread_interval(self) -> int:
        return self.gram_update_interval

    @property
    def weight_per_triple(self) -> float | None:
        return self.unobserved_weight if self.weighting == "triple" else None

    def preferred_calibrator(self, labels: int, facts: int) -> str | None:
        """Return one that looks at more than a score: those of this objective are no log-odds."""
        return "labelled" if labels and facts >= ENOUGH_FACTS else super().preferred_calibrator(labels, facts)

    def prepare(self, facts: Tensor, n_entities: int, n_relations: int) -> dict[str, Tensor]:
        """Return each fact's weight, the weights of its entities' N3, and its share of its queries' facts."""
        heads, relations, tails = facts.unbind(1)
        prepared = {}
        if self.relation_power:
            weights = _multiplicity(relations).double().pow(-self.relation_power)
            prepared["weight"] = (weights / weights.mean()).float()
        if self.n3 and self.n3_power:
            counts = torch.bincount(torch.cat([heads, tails]), minlength=n_entities).double()
            both = counts[torch.stack([heads, tails])].pow(-self.n3_power)
            prepared["n3_heads"], prepared["n3_tails"] = (both / both.mean()).float()
        if self.weighting == "query":
            prepared["tails"] = 1 / _multiplicity(heads * n_relations + relations)
            prepared["heads"] = 1 / _multiplicity(tails * n_relations + relations)
            prepared["relations"] = 1 / _multiplicity(heads * n_entities + tails)
        return prepared

    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, Tensor]:
        heads, relations, tails = batch.rows()
        all_entities, all_relations = batch.all_entities(), batch.all_relations()
        from_heads = self._dropped(model, batch, heads, 0)
        w0, w0_relation = self.unobserved_weight, self.relation_unobserved_weight
        every = None
        if self.weighting == "all":
            every = model.sum_of_squares(all_entities.gram(), all_relations.rows, all_entities.gram())
        query = model.tail_query(from_heads, relations)
        terms = {"tails": self._direction(query, tails, all_entities, w0, "tails", batch, every)}
        if not self.reciprocal and self.head_weight:
            query = model.head_query(self._dropped(model, batch, tails, 1), relations)
            terms["heads"] = self.head_weight * self._direction(query, heads, all_entities, w0, "heads", batch, every)
        if self.relation_weight:
            query = model.relation_query(from_heads, tails)
            terms["relations"] = self.relation_weight * self._direction(
                query, relations, all_relations, w0_relation, "relations", batch, every
            )
        if self.n3:
            weights = (batch.prepared.get("n3_heads"), None, batch.prepared.get("n3_tails"))
            terms["n3"] = n3_penalty(self.n3, model, heads, relations, tails, weights=weights)
        return terms

    def _dropped(self, model: BilinearModel, batch: Batch, rows: Tensor, side: int) -> Tensor:
        if not model.training or model.dropout == 0:
            return rows
        keep = keep_mask(mix_all(batch.key + side), len(rows), rows.shape[-1], model.dropout, rows.device)
        return rows * keep * (1 / (1 - model.dropout))

    def _direction(
        self,
        query: Tensor,
        own: Tensor,
        answers: Candidates,
        w0: float,
        name: str,
        batch: Batch,
        every: Tensor | None,
    ) -> Tensor:
        """Return the loss of one direction: `own` rows answer the queries truly, `answers` are all that could."""
        scores = (query * own).sum(-1)
        losses = (1 - scores).square() - w0 * scores.square()
        is_likely = self.likelihood_weight > 0 and name != "relations"
        if every is None or is_likely:
            squares = answers.sum_squares(query)
            if every is None:
                losses = losses + w0 * (squares * batch.prepared[name] if self.weighting == "query" else squares)
            if is_likely:
                losses = losses - self.likelihood_weight * _log_shares(scores, squares)
        loss = batch.weighted(losses).mean()
        facts = batch.batches * (batch.n_whole or batch.n_facts)  # of an epoch; exact for whole batches
        return loss if every is None else loss + w0 * every / facts


def _log_shares(scores: Tensor, squares: Tensor) -> Tensor:
    """Return log(φ/√Σφ²) of each fact, counted as far as √Σφ² has grown; else it would be all there is at first."""
    size = (squares + TINY).sqrt()
    return torch.log(scores.clamp(min=0) / size + FLOOR) * size.detach().clamp(max=1)


def _multiplicity(keys: Tensor) -> Tensor:
    """Return how often each key occurs among all, shape as given."""
    _, place, counts = torch.unique(keys, return_inverse=True, return_counts=True)
    result: Tensor = counts[place]
    return result
