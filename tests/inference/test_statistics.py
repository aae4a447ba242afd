"""The census against plain enumeration."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from staypositive.cli import app
from staypositive.errors import InputError
from staypositive.inference.statistics import score_statistics, wilson
from staypositive.models import Scorer


def all_logits(run: sp.Run) -> np.ndarray:
    """Calibrated log-odds of every triple, shape (relations, heads, tails)."""
    n, relations = len(run.graph.entities), len(run.graph.relations)
    grid = torch.cartesian_prod(torch.arange(relations), torch.arange(n), torch.arange(n))
    with torch.no_grad():
        scores = run.model.score(grid[:, 1], grid[:, 0], grid[:, 2]).double().numpy()
    return scores.reshape(relations, n, n)


@pytest.mark.parametrize("objective", ["stay-positive", "second-moment"])
@pytest.mark.parametrize("calibrator", [None, "platt", "isotonic"])
def test_census_equals_enumeration(objective: str, calibrator: str | None) -> None:
    run = sp.fit(planted_graph(), model="complex", objective=objective, dim=6, epochs=15, batch_size=64)
    if calibrator:
        run.calibrate(calibrator)
    table = score_statistics(run.predictor, threshold=0.6, samples=20_000, exact=True)
    scores = all_logits(run)
    logits = run.predictor.logits(scores.reshape(-1)).reshape(scores.shape)
    aim = math.log(0.6 / 0.4)
    for number, row in enumerate(table.iloc[:-1].itertuples()):
        assert row.mean == pytest.approx(scores[number].mean(), abs=1e-5)
        assert row.std == pytest.approx(scores[number].std(), rel=1e-3)
        assert row.exact == pytest.approx((logits[number] >= aim).sum(), abs=2)
        assert row.low <= row.sampled <= row.high
        assert row.low - 0.02 * row.triples <= row.exact <= row.high + 0.02 * row.triples
    whole = table.iloc[-1]
    assert whole["relation"] == "(all)"
    assert whole["mean"] == pytest.approx(scores.mean(), abs=1e-5)
    assert whole["std"] == pytest.approx(scores.std(), rel=1e-3)
    assert whole["exact"] == table["exact"][:-1].sum()
    assert whole["facts"] == len(run.graph.facts())


@pytest.mark.parametrize("method", ["posterior", "null-logistic"])
def test_a_census_by_the_background_is_sampled_alone(method: str) -> None:
    run = sp.fit(planted_graph(), model="complex", objective="second-moment", dim=6, epochs=15, batch_size=64)
    run.calibrate(method)
    table = score_statistics(run.predictor, threshold=0.3, prior=0.4, samples=20_000)
    assert "normal" not in table
    n = len(run.graph.entities)
    for number, row in enumerate(table.iloc[:-1].itertuples()):
        every = np.array([(h, number, t) for h in range(n) for t in range(n)])
        likely = int((run.predictor.triple_logits(every, prior=0.4) >= math.log(0.3 / 0.7)).sum())
        assert 0 < likely < n * n
        assert row.low - 0.02 * n * n <= likely <= row.high + 0.02 * n * n


def test_a_threshold_as_a_score() -> None:
    run = sp.fit(planted_graph(), model="distmult", dim=4, epochs=2, prior_score=-1.0)
    at = run.predictor.score_at(0.5)
    assert at == pytest.approx(1.0)
    assert run.predictor.score_at(0.5, prior=0.5) == pytest.approx(0.0, abs=1e-6)
    run.calibrate("isotonic")
    assert run.predictor.score_at(1e-9) == -math.inf
    assert run.predictor.score_at(1 - 1e-12) == math.inf
    with pytest.raises(InputError, match="between 0 and 1"):
        run.predictor.score_at(1.0)
    run.calibrate("posterior")
    with pytest.raises(InputError, match="not one score for all triples; calibrate with platt"):
        score_statistics(run.predictor, exact=True)
    with pytest.raises(InputError, match="between 0 and 1"):
        score_statistics(run.predictor, threshold=1.0)
    run.calibrator = None
    with pytest.raises(InputError, match="at least 1"):
        score_statistics(run.predictor, samples=0)


def test_wilson_covers_as_it_says() -> None:
    draw = np.random.default_rng(0)
    for share in (0.003, 0.2):
        hits = draw.binomial(2000, share, size=2000)
        spans = [wilson(int(h), 2000, 1.0) for h in hits]
        covered = np.mean([span.low <= share <= span.high for span in spans])
        assert covered > 0.93
    assert wilson(0, 100, 1e6).low == 0


def test_forms_give_the_same_scores(model_name: str) -> None:
    for reciprocal in (False, True):
        model = sp.models.build_model(model_name, 5, 3, 4, reciprocal=reciprocal).double()
        model.initialise(torch.Generator().manual_seed(0))
        scorer, rows = Scorer(model), model.entity_rows().detach()
        to_tail, to_head = scorer.forms(2)
        ids = torch.arange(5)
        expected = scorer.tails(ids, torch.full((5,), 2))
        torch.testing.assert_close(to_tail(rows) @ rows.T, expected)
        torch.testing.assert_close((to_head(rows) @ rows.T).T, expected)


def test_the_command(tmp_path: Path) -> None:
    run = sp.fit(planted_graph(), model="distmult", dim=4, epochs=2)
    run.save(tmp_path / "run")
    done = CliRunner().invoke(app, ["stats", str(tmp_path / "run"), "--samples", "500", "--json", "--exact"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert [row["relation"] for row in rows][-1] == "(all)"
    shown = CliRunner().invoke(app, ["stats", str(tmp_path / "run"), "--out", str(tmp_path / "census.csv")])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "census.csv").read_text("utf-8").startswith("relation,facts,triples,mean,std")
