"""Discovery against plain enumeration, and the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import Labels, incomplete_graph, quick_fit
from staypositive.cli import app
from staypositive.errors import InputError
from staypositive.inference import best_first, discover
from staypositive.inference.ordering import grid, reaches
from staypositive.models import logit


@pytest.fixture
def run(incomplete_run: sp.Run) -> sp.Run:
    return incomplete_run


@pytest.fixture(scope="module")
def without() -> sp.Run:
    """A run with too few validation facts for probabilities."""
    return quick_fit(incomplete_graph(24, 3, hidden=30, held=40)[0])


def unknown_pairs(run: sp.Run, relation: int) -> np.ndarray:
    n, known = len(run.graph.entities), set(map(tuple, run.graph.facts().tolist()))
    pairs = [(h, relation, t) for h in range(n) for t in range(n) if h != t]
    return np.array([triple for triple in pairs if triple not in known], dtype=np.int64)


@pytest.mark.parametrize("completeness", [None, 0.6])
@pytest.mark.parametrize("aim", [None, 0.05])
def test_discovery_equals_enumeration(run: sp.Run, aim: float | None, completeness: float | None) -> None:
    predictor = run.predictor.assuming(completeness)
    least = logit(0.5 if aim is None else aim)
    for found in discover(predictor, min_probability=aim):
        triples = unknown_pairs(run, found.relation)
        log_odds = predictor.log_odds(triples)
        expected = set(map(tuple, triples[reaches(log_odds, least)].tolist()))
        assert set(map(tuple, found.triples.tolist())) == expected
        assert len(expected) > 10
        assert (np.diff(grid(found.logits)) <= 0).all()  # the order of all lists: equal but for rounding is equal
        np.testing.assert_allclose(found.logits, predictor.log_odds(found.triples), atol=1e-9)
        np.testing.assert_allclose(found.scores, predictor.score(found.triples), atol=1e-9)


def test_what_was_hidden_is_discovered(run: sp.Run, incomplete: tuple[sp.KnowledgeGraph, list[Labels]]) -> None:
    found = run.discover()
    hidden = set(incomplete[1])
    true = [(row.head, row.relation, row.tail) in hidden for row in found.itertuples()]
    assert len(hidden) * 0.7 < sum(true) <= len(hidden)
    assert np.mean(true) == pytest.approx(found["probability"].mean(), abs=0.15)


def test_the_most_likely_of_each_relation(run: sp.Run) -> None:
    options = {"min_probability": 0.3}
    for whole, cut in zip(
        discover(run.predictor, **options), discover(run.predictor, most=5, **options), strict=True
    ):
        assert len(whole.triples) > 5
        np.testing.assert_array_equal(cut.triples, whole.triples[:5])
        np.testing.assert_array_equal(cut.logits, whole.logits[:5])


def test_without_probabilities_the_best_by_score_are_found(without: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert without.posterior is None
    table = without.discover(top=7)
    assert list(table) == ["head", "relation", "tail", "score"]
    every = np.concatenate([unknown_pairs(without, relation) for relation in (0, 1)])
    scores = without.predictor.score(every)
    order = best_first(np.zeros(len(every)), scores, every)[:7]
    labels = without.predictor.labels(every[order])
    assert table[["head", "relation", "tail"]].to_dict("list") == labels
    np.testing.assert_allclose(table["score"], scores[order], atol=1e-9)
    whole = list(discover(without.predictor, most=7))
    monkeypatch.setattr("staypositive.inference.discovery.PIECE", 50)  # pairs of two heads at once
    for found, expected in zip(discover(without.predictor, most=7), whole, strict=True):
        np.testing.assert_array_equal(found.triples, expected.triples)


@pytest.mark.parametrize("wanted", [{}, {"min_probability": 0.5}, {"min_probability": 0.5, "top": 5}])
def test_without_probabilities_a_number_is_needed(without: sp.Run, wanted: dict[str, float]) -> None:
    with pytest.raises(InputError, match="no probabilities, only scores: ask for a number of triples by `top`"):
        without.discover(**wanted)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no probabilities that a completeness could change"):
        without.discover(top=3, completeness=0.5)


def test_some_relations_and_bad_requests(run: sp.Run) -> None:
    assert [found.relation for found in discover(run.predictor, relations=[1])] == [1]
    for share in (0.0, 1.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            list(discover(run.predictor, min_probability=share))


def call(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_goes_on_where_it_stopped(run: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = str(tmp_path / "run"), tmp_path / "new.tsv"
    run.save(tmp_path / "run")
    wanted = ("discover", folder, "--min-probability", "0.02", "--completeness", "0.5")
    whole = json.loads(call(*wanted, "--json"))
    assert whole
    assert [row["probability"] for row in whole] == sorted((r["probability"] for r in whole), reverse=True)
    call(*wanted, "--out", str(out))
    written = pd.read_csv(out, sep="\t")
    assert len(written) == len(whole)
    assert not (tmp_path / "new.tsv.partial").exists()
    seen: list[list[int]] = []

    def stopping(predictor: object, **options: object) -> object:
        seen.append(list(options["relations"]))  # type: ignore[call-overload]
        for found in discover(predictor, **options):  # type: ignore[arg-type]
            yield found
            if len(seen) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr("staypositive.cli.ask.discover", stopping)
    out.unlink()
    CliRunner().invoke(app, [*wanted, "--out", str(out)])
    assert not out.exists()
    call(*wanted, "--out", str(out))
    assert seen == [[0, 1], [1]]
    pd.testing.assert_frame_equal(pd.read_csv(out, sep="\t"), written)


def test_top_and_names(run: sp.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    folder = str(tmp_path / "run")
    best = json.loads(
        call("discover", folder, "--top", "3", "--min-probability", "0.1", "--relations", "peer", "--json")
    )
    assert len(best) == 3
    assert {row["relation"] for row in best} == {"peer"}
    assert "new triples" in call("discover", folder, "--top", "2", "--min-probability", "0.1")
    wrong = CliRunner().invoke(app, ["discover", folder, "--out", str(tmp_path / "x.json")])
    assert isinstance(wrong.exception, InputError)


def test_parquet_or_a_clear_error(run: sp.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    out = tmp_path / "new.parquet"
    done = CliRunner().invoke(app, ["discover", str(tmp_path / "run"), "--min-probability", "0.5", "--out", str(out)])
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert isinstance(done.exception, InputError)
        assert "staypositive[parquet]" in str(done.exception)
    else:
        assert done.exit_code == 0
        assert list(pd.read_parquet(out).columns)[:3] == ["head", "relation", "tail"]
