"""Masks by hash: the tensor form equals the plain one, and behaves like chance."""

from __future__ import annotations

import pytest
import torch

from staypositive.models.hashing import (
    GOLDEN,
    draw_below,
    drop_threshold,
    keep_mask,
    masks_at,
    mix,
    mix_all,
    step_keys,
)

CPU = torch.device("cpu")


def test_the_tensor_form_equals_the_plain_one() -> None:
    key = int(step_keys(7, 3, 1, CPU))
    mask = keep_mask(key, 5, 9, 0.4, CPU)
    for row in range(5):
        for column in range(9):
            assert bool(mask[row, column]) == (mix(mix(key + row) + column * GOLDEN) >= drop_threshold(0.4))


def test_masks_behave_like_chance() -> None:
    masks = torch.stack([keep_mask(key, 200, 300, 0.4, CPU) for key in step_keys(0, 0, 20, CPU)]).double()
    assert masks.mean().item() == pytest.approx(0.6, abs=0.002)
    for axis in range(3):  # no row, column or step is special
        share = masks.mean([a for a in range(3) if a != axis])
        spread = (0.24 / (masks.numel() / len(share))) ** 0.5
        assert ((share - 0.6).abs() < 5 * spread).all()
    for shifted in (masks[:, 1:] * masks[:, :-1], masks[:, :, 1:] * masks[:, :, :-1], masks[1:] * masks[:-1]):
        assert shifted.mean().item() == pytest.approx(0.36, abs=0.003)


def test_nothing_and_almost_everything() -> None:
    assert keep_mask(1, 10, 10, 0.0, CPU).all()
    assert drop_threshold(1 - 1e-12) == 2**32 - 1


def test_keys_and_draws_equal_the_plain_ones() -> None:
    assert step_keys(7, 3, 4, CPU).tolist() == [mix(mix(7) + step) for step in range(3, 7)]
    hashes = mix_all(torch.arange(7000))
    drawn = draw_below(7, hashes)
    assert drawn.tolist() == [mix(i) * 7 // 2**32 for i in range(7000)]
    counts = torch.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert ((counts - 1000).abs() < 5 * (1000 * 6 / 7) ** 0.5).all()


def test_a_share_of_a_batch_has_its_rows_of_the_mask() -> None:
    key, places = torch.tensor(77), torch.tensor([5, 0, 8])
    whole = keep_mask(key, 9, 6, 0.4, torch.device("cpu"))
    with masks_at(places):
        share = keep_mask(key, 3, 6, 0.4, torch.device("cpu"))
    assert torch.equal(share, whole[places])
    assert torch.equal(keep_mask(key, 9, 6, 0.4, torch.device("cpu")), whole)
