"""The models' GPU kernels, under Triton's interpreter, against the plain code."""

from __future__ import annotations

import pytest
import torch

from staypositive.models import TABLES, BlockModel, Table
from staypositive.models.gpu import encode_terms, keep_mask_on_gpu
from staypositive.models.hashing import drop_threshold, keep_mask

ALL = {**TABLES, "negative weight": Table(2, 2, "001+ 110-", weight=-0.5)}


@pytest.mark.parametrize("name", sorted(ALL))
def test_products_of_blocks_and_their_gradients(name: str) -> None:
    model = BlockModel(4, 2, 5, table=ALL[name])
    draw = torch.Generator().manual_seed(0)
    entity, relation = model.entity_width(), model.relation_width()
    for order, widths, query in (
        ((0, 1, 2), (entity, relation, entity), model.tail_query),
        ((2, 1, 0), (entity, relation, entity), model.head_query),
        ((0, 2, 1), (entity, entity, relation), model.relation_query),
    ):
        left, right = (torch.randn(3, width, generator=draw, requires_grad=True) for width in widths[:2])
        up = torch.randn(3, widths[2], generator=draw)
        expected = query(left, right)
        found = model._query_on_gpu(widths[2] // 5, order, left, right)
        torch.testing.assert_close(found, expected)
        for ours, theirs in zip(
            torch.autograd.grad(found, (left, right), up),
            torch.autograd.grad(expected, (left, right), up),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


def test_blocks_that_two_bits_cannot_name_are_refused() -> None:
    terms = [(3, 0, 1, False), (0, 2, 3, True)]
    assert encode_terms(terms) == 3 | 1 << 4 | (2 << 2 | 3 << 4 | 1 << 6) << 8
    with pytest.raises(ValueError, match="4 blocks, from 0, got 4, 0 and 1"):
        encode_terms([(4, 0, 1, False)])


def test_the_same_mask() -> None:
    key = torch.tensor(123456789)
    for dropout in (0.3, 0.5):
        found = keep_mask_on_gpu(key, 7, 33, drop_threshold(dropout))
        assert torch.equal(found, keep_mask(key, 7, 33, dropout, key.device))
