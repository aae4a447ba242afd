"""PyKEEN's models as rows of ours: scores, sums and squares of all scores against every score by PyKEEN itself."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pykeen")

import pykeen.models
import torch
from pykeen.nn.modules import SimplEInteraction

from pykeen_models import MODELS, all_triples, small_model
from staypositive.errors import SettingError
from staypositive.interop.pykeen import RowView
from staypositive.interop.pykeen.rows import Layout, layout_named


@pytest.mark.parametrize("name", MODELS)
def test_scores_sums_and_squares_are_those_of_every_triple(name: str, nations: Any) -> None:
    model = small_model(name, nations.training)
    view, triples = RowView(model), all_triples(model)
    entities, relations = view.entity_rows(), view.relation_rows()
    with torch.no_grad():
        every = model.score_hrt(triples).squeeze(1)
    h, r, t = triples.unbind(1)
    torch.testing.assert_close(view.algebra.score_rows(entities[h], relations[r], entities[t]), every)
    torch.testing.assert_close(view.algebra.sum_rows(entities, relations, entities), every.sum())
    gram = entities.T @ entities
    torch.testing.assert_close(view.algebra.sum_of_squares(gram, relations, gram), every.square().sum())


def test_algebra_holds_no_weights(plain_nations: Any) -> None:
    view = RowView(small_model("DistMult", plain_nations.training))
    assert view.algebra.entities.device.type == "meta"


def test_rows_are_what_is_scored_after_normalisation(plain_nations: Any) -> None:
    model = pykeen.models.DistMult(
        triples_factory=plain_nations.training,
        embedding_dim=4,
        entity_representations_kwargs={"normalizer": torch.tanh},
    )
    weights = model.entity_representations[0]._embeddings.weight
    torch.testing.assert_close(RowView(model).entity_rows(), torch.tanh(weights))


def test_simple_is_read_as_the_installed_pykeen_scores_it(plain_nations: Any) -> None:
    model = small_model("SimplE", plain_nations.training)
    triples = plain_nations.training.mapped_triples[:50]
    with torch.no_grad():
        is_symmetric = torch.allclose(model.score_hrt(triples), model.score_hrt(triples.flip(1)))
    assert layout_named("simple") == (Layout("distmult", 0.5) if is_symmetric else Layout("simple"))


def test_simple_as_in_its_paper_would_be_simple(monkeypatch: pytest.MonkeyPatch) -> None:
    def crossed(self: Any, h: Any, r: Any, t: Any) -> Any:
        return 0.5 * (self.base(h[0], r[0], t[1]) + self.base(t[0], r[1], h[1]))

    monkeypatch.setattr(SimplEInteraction, "forward", crossed)
    assert layout_named("simple") == Layout("simple")


def test_clamped_scores_are_refused(plain_nations: Any) -> None:
    with pytest.raises(SettingError, match=r"clamped to .* clamp_score=None"):
        RowView(small_model("SimplE", plain_nations.training, clamp_score=20.0))


def test_other_models_are_refused_by_name(plain_nations: Any) -> None:
    with pytest.raises(SettingError, match=r"distmult, simple, complex, hole, rescal, cp.*got TransE"):
        RowView(pykeen.models.TransE(triples_factory=plain_nations.training))
    with pytest.raises(SettingError, match="got 'transe'"):
        layout_named("transe")
