"""Answers of many keys, against a dictionary."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from staypositive.evaluation import AnswerIndex


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(-3, 5), st.integers(0, 4)), max_size=20),
    asked=st.lists(st.integers(-4, 6), max_size=6),
)
def test_answers_are_those_of_a_dictionary_of_sets(pairs, asked):
    known: dict[int, set[int]] = {}
    for key, answer in pairs:
        known.setdefault(key, set()).add(answer)
    table = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    positions, answers = AnswerIndex(table[:, 0], table[:, 1], 50).of(torch.tensor(asked, dtype=torch.int64))
    expected = [(place, answer) for place, key in enumerate(asked) for answer in sorted(known.get(key, ()))]
    assert list(zip(positions.tolist(), answers.tolist(), strict=True)) == expected
