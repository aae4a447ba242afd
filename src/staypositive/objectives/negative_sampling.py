"""The paper's baseline: each fact against drawn corruptions of it (equation 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from staypositive.models import BilinearModel
from staypositive.models.hashing import GOLDEN, draw_below, mix_all
from staypositive.objectives.objective import Batch, Defaults, LogisticForm, Objective, l2_penalty
from staypositive.objectives.statistics import Statistic
from staypositive.options import option


@dataclass(frozen=True)
class NegativeSampling(Objective):
    """Σ softplus(−l·(φ+ψ)) over facts (l = 1) and `negatives` corruptions of each (l = −1), + L2 on both tables.

    A corruption replaces head or tail, by a fair coin, with an entity drawn uniformly; it may by chance be true.
    """

    name: ClassVar[str] = "negative-sampling"
    defaults: ClassVar[Defaults] = Defaults(bound="identity", init_scale=None, accumulator=0.1)
    search_space: ClassVar[dict[str, Any]] = Objective.search_space | {
        "l2": {"low": 1e-4, "high": 0.1, "log": True},
        "negatives": (1, 4, 10),
    }
    paper_grid: ClassVar[dict[str, Any]] = {
        "learning_rate": (0.1, 0.01, 0.001, 0.0001),
        "l2": (0.1, 0.01, 0.001),
        "dim": (100, 200),
        "dropout": (0.0, 0.4),
        "negatives": (1, 10),
    }

    negatives: int = option(1, "negative ratio n: corruptions drawn for each fact", least=1)
    l2: float = option(0.0, "weight of the L2 penalty on all parameters, counted once per epoch", least=0)

    @property
    def statistic(self) -> Statistic:
        """L2 acts on every row."""
        return Statistic.ROWS if self.l2 else Statistic.NONE

    def logistic_form(self, batches: int) -> LogisticForm:
        return LogisticForm(decay=self.l2 / batches)

    @property
    def negatives_per_fact(self) -> int:
        return self.negatives

    def examples(self, facts: Tensor, n_entities: int, keys: Tensor) -> Tensor:
        """Return the facts, then their corruptions, drawn at once on the device."""
        false = facts.repeat(1, self.negatives, 1)
        places = torch.arange(false.shape[1], device=facts.device)
        hashes = mix_all(mix_all(keys + GOLDEN)[:, None] + places)
        drawn = draw_below(n_entities, hashes)
        at_head = mix_all(hashes + GOLDEN) < 2**31
        false[..., 0] = torch.where(at_head, drawn, false[..., 0])
        false[..., 2] = torch.where(at_head, false[..., 2], drawn)
        return torch.cat([facts, false], dim=1)

    def terms(self, model: BilinearModel, batch: Batch) -> dict[str, Tensor]:
        true, false = batch.logits(model).tensor_split([batch.n_facts])
        terms = {
            "facts": batch.weighted(softplus(-true)).sum(),
            "negatives": batch.weighted(softplus(false)).sum(),  # a corruption counts as its fact does
        }
        return terms | ({"l2": l2_penalty(self.l2, batch)} if self.l2 else {})
