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
        (errors.EndedEarlyError("x"), ()),
        (errors.ShortOfMemoryError("x"), ()),
        (errors.RunError("x"), ()),
    ],
)
def test_every_error_is_in_the_tree(error, parents):
    assert isinstance(error, errors.StayPositiveError)
    assert all(isinstance(error, parent) for parent in parents)
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


@pytest.mark.parametrize("kind", [errors.DivergedError, errors.StoppedError])
def test_an_error_that_ends_training_keeps_the_run(kind):
    run = object()
    assert issubclass(kind, errors.EndedEarlyError)
    assert kind("bad", run).run is run
    assert kind("bad").run is None


def test_short_memory_is_a_memory_error_too():
    with pytest.raises(MemoryError):
        raise errors.ShortOfMemoryError("bad")
