"""1vsAll (Lacroix et al. 2018): each fact against every other answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from staypositive.models import BilinearModel
from staypositive.models.hashing import keep_mask, mix_all
from staypositive.objectives.objective import Batch, Defaults, Objective, l2_penalty, n3_penalty
from staypositive.objectives.statistics import Statistic
from staypositive.options import option


@dataclass(frozen=True)
class OneVsAll(Objective):
    """Mean cross-entropy of the tail among all entities, and of the head, + N3 on the facts' rows, L2 on all.

    With `reciprocal` a head is asked for as the tail of the fact read backwards, by a relation row of its own.

    Nothing is drawn, but every entity is scored for every fact: O(|E|·d) per fact. Dropout acts on the query, so that
    one mask serves all candidates.
    """

    name: ClassVar[str] = "1vsall"
    defaults: ClassVar[Defaults] = Defaults(bound="identity", init_scale=1e-3, accumulator=1e-10, monitor="mrr")
    averages: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = False
    statistic = Statistic.ROWS  # every entity is a candidate
    search_space: ClassVar[dict[str, Any]] = Objective.search_space | {"n3": {"low": 1e-4, "high": 0.1, "log": True}}

    l2: float = option(0.0, "weight of the L2 penalty on all parameters, counted once per epoch", least=0)
    n3: float = option(0.0, "weight of the N3 penalty on the facts' rows", least=0)
    reciprocal: bool = option(
        False, "learn each fact backwards too, in place of asking for heads", choices=(True, False)
    )

    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, Tensor]:
        heads, relations, tails = batch.rows()
        terms = {"tails": self._answer(model, batch, model.tail_query(heads, relations), batch.tails, 0)}
        if not self.reciprocal:
            terms["heads"] = self._answer(model, batch, model.head_query(tails, relations), batch.heads, 1)
        if self.n3:
            terms["n3"] = n3_penalty(self.n3, model, heads, relations, tails)
        return terms | ({"l2": l2_penalty(self.l2, batch)} if self.l2 else {})

    def _answer(self, model: BilinearModel, batch: Batch, query: Tensor, answers: Tensor, side: int) -> Tensor:
        if model.training and model.dropout:
            keep = keep_mask(mix_all(batch.key + side), len(query), query.shape[-1], model.dropout, query.device)
            query = query * keep / (1 - model.dropout)
        return batch.weighted(cross_entropy(query @ batch.entity_rows.T, answers, reduction="none")).mean()
