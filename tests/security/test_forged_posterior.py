"""Posteriors that somebody made up, in run folders whose hashes are right: refused as other forged parts are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import staypositive as sp
from security.test_forgeries import forge, part
from staypositive.errors import RunError

POSTERIOR = "posterior.json"


@pytest.fixture(scope="module")
def template(incomplete_run: sp.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of which every test changes the posterior anew."""
    return incomplete_run.save(tmp_path_factory.mktemp("forged") / "run")


@pytest.fixture(scope="module")
def stated(template: Path) -> str:
    return part(template, POSTERIOR)[0].read_text("utf-8")


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a list": (lambda d: [d], "is not a readable run"),
    "no models": (lambda d: d.pop("models"), ""),
    "three models": (lambda d: d["models"].pop(), "has parts of another shape"),
    "a part too much": (lambda d: d.update(more=1), ""),
    "no pairs": (lambda d: d.update(pairs=[]), ""),
    "a relation too few": (lambda d: d["pairs"].pop(), ""),
    "fewer steps": (lambda d: d.update(pairs=[row[:-1] for row in d["pairs"]]), "has parts of another shape"),
    "text for numbers": (lambda d: d.update(mapped=["x"] * len(d["mapped"])), ""),
    "a short map": (lambda d: d["mapped"].pop(), "has parts of another shape"),
    "a number for the map": (lambda d: d.update(mapped=1.0), ""),
    "a ragged table": (lambda d: d["pairs"][0].pop(), ""),
    "negative pairs": (lambda d: d["pairs"][0].__setitem__(0, -1.0), "counts less than nothing"),
    "negative facts": (lambda d: d.update(facts=-1), "counts less than nothing"),
    "negative held-out facts": (lambda d: d["held_out_of"].__setitem__(0, -1), "counts less than nothing"),
    "nothing missing": (lambda d: d.update(missing=0.0), "counts less than nothing"),
    "endless facts": (lambda d: d.update(facts=10**400), "more than any graph has"),
    "endless pairs": (lambda d: d["pairs"][0].__setitem__(0, 1e300), "more than any graph has"),
    "a negative number missing": (lambda d: d.update(missing=-3.0), "counts less than nothing"),
    "text for a number": (lambda d: d.update(missing="many"), ""),
    "a list for a number": (lambda d: d.update(missing=[1.0]), ""),
    "null for a number": (lambda d: d.update(offset=None), ""),
    "an offset beyond all": (lambda d: d.update(offset=1e9), "an offset beyond all log-odds"),
    "another feature": (lambda d: d["models"][0]["basis"]["columns"].__setitem__(0, 99), "a model of other features"),
    "a feature before the first": (lambda d: d["models"][1]["own_columns"].__setitem__(0, -1), "other features"),
    "a slope too few": (lambda d: d["models"][0]["slopes"].pop(), "a model of other features"),
    "no scale": (lambda d: d["models"][0]["basis"]["scale"].__setitem__(0, 0.0), "a model of other features"),
    "an own part too few": (lambda d: d["models"][2]["own"].pop(), "a model of other features"),
    "endless slopes": (lambda d: d["models"][3]["slopes"].__setitem__(0, 1e300), "numbers that are too large"),
    "an endless offset": (lambda d: d["models"][3].update(offset=-1e300), "numbers that are too large"),
    "hardly any scale": (lambda d: d["models"][0]["own_scale"].__setitem__(0, 1e-300), "a model of other features"),
    "text for an offset": (lambda d: d["models"][0].update(offset="x"), ""),
    "a model that is a list": (lambda d: d["models"].__setitem__(0, [1]), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_posterior_is_refused(template: Path, stated: str, name: str) -> None:
    change, said = FORGERIES[name]
    data = json.loads(stated)
    changed = change(data)
    forge(template, POSTERIOR, json.dumps(changed if name == "a list" else data).encode())
    with pytest.raises(RunError, match="is not a readable run") as caught:
        sp.load_run(template)
    assert said in str(caught.value)


@pytest.mark.parametrize("literal", ["NaN", "-Infinity", "1e999", "null", "[[1]]"])
@pytest.mark.parametrize("place", ["mapped", "missing", "offset", "facts", "held_out", "most_missing", "held_out_of"])
def test_numbers_that_are_none_are_refused(template: Path, stated: str, place: str, literal: str) -> None:
    data = json.loads(stated)
    data[place] = ["odd", *data[place][1:]] if isinstance(data[place], list) else "odd"
    forge(template, POSTERIOR, json.dumps(data).replace('"odd"', literal).encode())
    with pytest.raises(RunError, match="is not a readable run"):
        sp.load_run(template)


@pytest.mark.parametrize("literal", ["true", '"1"'])
@pytest.mark.parametrize("place", ["missing", "offset", "facts", "held_out", "most_missing"])
def test_what_is_no_number_is_refused(template: Path, stated: str, place: str, literal: str) -> None:
    forge(template, POSTERIOR, json.dumps(json.loads(stated) | {place: json.loads(literal)}).encode())
    with pytest.raises(RunError, match=f"is not a readable run: the posterior cannot be: {place} must be a"):
        sp.load_run(template)


def test_what_is_right_is_read(template: Path, stated: str) -> None:
    forge(template, POSTERIOR, json.dumps(json.loads(stated) | {"offset": 1.0}).encode())
    found = sp.load_run(template).posterior
    assert found is not None
    assert found.offset == 1.0
