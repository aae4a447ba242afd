"""Discovery against plain enumeration, and the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from staypositive.cli import app
from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.inference import discover
from staypositive.inference.ordering import grid


@pytest.fixture(scope="module")
def run() -> sp.Run:
    return sp.fit(planted_graph(), model="complex", objective="second-moment", dim=8, epochs=20, batch_size=64,
                  unobserved_weight=0.05)  # fmt: skip


@pytest.mark.parametrize("all_pairs", [False, True])
@pytest.mark.parametrize("method", [None, "platt", "posterior", "null-logistic"])
def test_discovery_equals_enumeration(run: sp.Run, method: str | None, all_pairs: bool) -> None:
    run.calibrator = None
    if method:
        run.calibrate(method)
    graph, predictor = run.graph, run.predictor
    known = set(map(tuple, graph.facts().tolist()))
    # Every true triple of this graph is known, so that nothing new is likely.
    aim = {None: 0.32, "platt": 0.01, "posterior": 1e-4, "null-logistic": 1e-5}[method]
    count = 0
    for found in discover(predictor, min_probability=aim, prior=0.3, all_pairs=all_pairs, piece=300):
        count += len(found.triples)
        facts = graph.train.facts[graph.train.facts[:, 1] == found.relation]
        n = len(graph.entities)
        heads, tails = (range(n), range(n)) if all_pairs else (set(facts[:, 0]), set(facts[:, 2]))
        pairs = [(h, found.relation, t) for h in heads for t in tails if h != t]
        triples = np.array([triple for triple in pairs if tuple(map(int, triple)) not in known], dtype=np.int64)
        probabilities = sigmoid(predictor.triple_logits(triples, prior=0.3))
        sure = set(map(tuple, triples[probabilities >= aim * 1.01].tolist()))
        maybe = set(map(tuple, triples[probabilities >= aim * 0.99].tolist()))
        assert sure <= set(map(tuple, found.triples.tolist())) <= maybe
        assert (np.diff(grid(found.logits)) <= 0).all()  # the order of all lists: equal but for rounding is equal
        np.testing.assert_allclose(
            found.logits, predictor.triple_logits(found.triples, prior=0.3), rtol=1e-3, atol=5e-3
        )
    assert count > 10
    run.calibrator = None


def test_the_most_likely_of_each_relation(run: sp.Run) -> None:
    options = {"min_probability": 0.3, "prior": 0.3, "all_pairs": True, "piece": 100}
    for whole, cut in zip(
        discover(run.predictor, **options), discover(run.predictor, most=5, **options), strict=True
    ):
        assert len(whole.triples) > 5
        np.testing.assert_array_equal(cut.triples, whole.triples[:5])
        np.testing.assert_array_equal(cut.logits, whole.logits[:5])


def test_some_relations_and_bad_requests(run: sp.Run) -> None:
    assert [found.relation for found in discover(run.predictor, relations=[1])] == [1]
    with pytest.raises(InputError, match="between 0 and 1"):
        list(discover(run.predictor, min_probability=1.0))


def call(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_goes_on_where_it_stopped(run: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = str(tmp_path / "run"), tmp_path / "new.tsv"
    run.calibrate("platt")
    run.save(tmp_path / "run")
    run.calibrator = None
    wanted = ("discover", folder, "--min-probability", "0.02", "--prior", "0.5")
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
        call("discover", folder, "--top", "3", "--min-probability", "0.1", "--relations", "ally", "--json")
    )
    assert len(best) == 3
    assert {row["relation"] for row in best} == {"ally"}
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
