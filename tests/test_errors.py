"""The tree of errors and what their texts say."""

from __future__ import annotations

import pytest

from staypositive import errors


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (errors.DataError("x"), (errors.InputError,)),
        (errors.SettingError("x"), (errors.InputError,)),
        (errors.UnknownLabelError("entity", "x"), (errors.InputError,)),
        (errors.InputError("x"), ()),
        (errors.DownloadError("x"), ()),
        (errors.DivergedError("x"), ()),
        (errors.RunError("x"), ()),
    ],
)
def test_every_error_is_in_the_tree(error, parents):
    assert isinstance(error, (errors.StayPositiveError, *parents))
    assert isinstance(error, errors.InputError) == (parents != () or type(error) is errors.InputError)


def test_a_data_error_says_where():
    assert str(errors.DataError("bad")) == "bad"
    assert str(errors.DataError("bad", "x.tsv")) == "x.tsv: bad"
    error = errors.DataError("bad", "x.tsv", 3)
    assert (str(error), error.path, error.line) == ("x.tsv:3: bad", "x.tsv", 3)


def test_an_unknown_label_says_what_is_near():
    assert str(errors.UnknownLabelError("relation", "in")) == "no relation is called 'in' in this graph."
    error = errors.UnknownLabelError("entity", "x", ["X", "x'"])
    assert str(error) == "no entity is called 'x' in this graph. Did you mean 'X' or \"x'\"?"
    assert error.suggestions == ("X", "x'")


def test_a_diverged_error_keeps_the_run():
    run = object()
    assert errors.DivergedError("bad", run).run is run
    assert errors.DivergedError("bad").run is None
