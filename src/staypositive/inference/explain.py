"""Which training facts support a triple most, by the model's own geometry.

A small step that raises the score of a fact raises that of every triple that shares a row with it: to first order by
∇φ(triple) · ∇φ(fact), both gradients taken in the rows (TracIn at the last checkpoint, Pruthi et al. 2020, without
the loss's weight). A fact's support is that product over ∇φ · ∇φ of the triple: 1 is what a step on the triple itself
would do. Every gradient is a query of the model, so nothing is retrained or differentiated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from staypositive.inference.lookup import FactIndex
from staypositive.inference.ordering import Floats, Ints, best_first
from staypositive.inference.predictor import Predictor
from staypositive.inference.queries import Query, encode_query, require_top
from staypositive.models import Scorer

if TYPE_CHECKING:
    import pandas as pd

PIECE = 2**24  # numbers of gradients held at once


class Explainer:
    """The training facts of a graph, ready to be compared with triples."""

    def __init__(self, predictor: Predictor, facts: FactIndex | None = None) -> None:
        self.predictor, self._facts = predictor, facts or FactIndex(predictor.graph)

    @torch.no_grad()
    def of(self, triple: tuple[int, int, int], top: int = 10) -> tuple[Ints, Floats]:
        """Return the training facts that support a triple most, other than itself, and by how much."""
        require_top(top)
        scorer = self.predictor.scorer
        asked = torch.tensor([triple], device=scorer.device)
        own = float(_products(scorer, asked, asked)[0])
        facts = self._sharing(triple)
        width = scorer.entity_rows.shape[1] * 2 + scorer.relation_rows.shape[1]
        pieces = torch.as_tensor(facts, device=scorer.device).split(max(1, PIECE // width))
        products = torch.cat([_products(scorer, asked, piece) for piece in pieces])
        support = products.double().cpu().numpy() / max(own, 1e-24)
        best = best_first(support, support, facts)[:top]
        best = best[support[best] > 0]
        return facts[best], support[best]

    def _sharing(self, triple: tuple[int, int, int]) -> Ints:
        """Return the other training facts that have one of the triple's rows, each once."""
        head, relation, tail = triple
        index, train = self._facts, self.predictor.graph.train.facts
        rows = np.unique(np.concatenate([index.rows_of(head), index.rows_of_relation(relation), index.rows_of(tail)]))
        facts: Ints = train[rows[rows < len(train)]]  # training facts come first
        others: Ints = facts[(facts != np.array(triple)).any(1)]
        return others


def _products(scorer: Scorer, asked: Tensor, facts: Tensor) -> Tensor:
    """Return ∇φ(asked) · ∇φ(fact) for each fact: over the relation's rows, where equal, and each shared entity's."""
    of_relation = [scorer.relation_gradients(part[:, 0], part[:, 2]) for part in (asked, facts)]
    total = torch.where(facts[:, 1] == asked[:, 1], (of_relation[0] * of_relation[1]).sum(-1), 0.0)
    own, others = ([(part[:, c], scorer.queries(part, s)) for s, c in (("head", 0), ("tail", 2))]
                   for part in (asked, facts))  # fmt: skip
    for entity, gradient in own:
        for entities, gradients in others:
            total = total + torch.where(entities == entity, (gradient * gradients).sum(-1), 0.0)
    return total


def explain_triple(
    predictor: Predictor, support: Explainer, head: str, relation: str, tail: str, top: int = 10
) -> pd.DataFrame:
    """Return the training facts that support a triple most by label: head, relation, tail, support."""
    import pandas as pd

    h, r, t = encode_query(Query(head, relation, tail), predictor.graph)
    facts, values = support.of((h, r, t), top)
    return pd.DataFrame({**predictor.labels(facts), "support": values})
