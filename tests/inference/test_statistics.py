"""Statistics of scores and new facts to expect, against plain enumeration."""

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
from staypositive.evaluation import sigmoid
from staypositive.inference.statistics import score_statistics
from staypositive.models import Scorer


def all_scores(run: sp.Run) -> np.ndarray:
    """Return the score of every triple, shape (relations, heads, tails)."""
    n, relations = len(run.graph.entities), len(run.graph.relations)
    grid = torch.cartesian_prod(torch.arange(relations), torch.arange(n), torch.arange(n))
    with torch.no_grad():
        scores = run.model.score(grid[:, 1], grid[:, 0], grid[:, 2]).double().numpy()
    return np.asarray(scores.reshape(relations, n, n))


@pytest.mark.parametrize("objective", ["stay-positive", "second-moment"])
def test_moments_are_those_of_all_scores(objective: str) -> None:
    run = sp.fit(planted_graph(), model="complex", objective=objective, dim=6, epochs=4, batch_size=64)
    table = score_statistics(run.predictor)
    scores = all_scores(run)
    assert list(table) == ["relation", "facts", "mean", "std"]  # without probabilities nothing is expected
    for number, row in enumerate(table.iloc[:-1].itertuples()):
        assert row.mean == pytest.approx(scores[number].mean(), abs=1e-5)
        assert row.std == pytest.approx(scores[number].std(), rel=1e-3)
    whole = table.iloc[-1]
    assert whole["relation"] == "(all)"
    assert whole["mean"] == pytest.approx(scores.mean(), abs=1e-5)
    assert whole["std"] == pytest.approx(scores.std(), rel=1e-3)
    assert whole["facts"] == len(run.graph.facts())


@pytest.mark.parametrize("completeness", [None, 0.8])
def test_new_facts_are_the_sum_of_all_probabilities(incomplete_run: sp.Run, completeness: float | None) -> None:
    run, n = incomplete_run, len(incomplete_run.graph.entities)
    predictor = run.predictor.assuming(completeness)
    table = run.stats(threshold=0.4, completeness=completeness)
    assert table.attrs["completeness"] == predictor.assumed
    known = set(map(tuple, run.graph.facts().tolist()))
    for number, row in enumerate(table.iloc[:-1].itertuples()):
        pairs = [(h, number, t) for h in range(n) for t in range(n) if h != t and (h, number, t) not in known]
        odds = predictor.log_odds(np.array(pairs))
        chances = sigmoid(odds)
        # Counts by intervals of log-odds, of a width of half a unit: so far may a probability be off.
        assert row.new_facts == pytest.approx(chances.sum(), rel=0.1)
        assert (odds > math.log(0.4 / 0.6) + 0.5).sum() <= row.likely <= (odds > math.log(0.4 / 0.6) - 0.5).sum()
        assert row.likely_facts <= min(row.new_facts, row.likely)
        assert row.new_error >= math.sqrt((chances * (1 - chances)).sum()) * 0.8
    sums = table[["facts", "new_facts", "likely", "likely_facts"]]
    np.testing.assert_allclose(sums.iloc[-1], sums.iloc[:-1].sum())
    assert table["new_error"].iloc[-1] == pytest.approx(math.hypot(*table["new_error"].iloc[:-1]))
    assert sums["new_facts"].iloc[-1] == pytest.approx(predictor.posterior.missing)


def test_a_threshold_is_a_probability(incomplete_run: sp.Run) -> None:
    counts = [incomplete_run.stats(threshold=least)["likely"].iloc[-1] for least in (0.01, 0.5, 0.99)]
    assert counts[0] > counts[1] > counts[2]
    with pytest.raises(InputError, match="between 0 and 1"):
        incomplete_run.stats(threshold=1.0)
    with pytest.raises(InputError, match="completeness is the share"):
        incomplete_run.stats(completeness=1.0)


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


def test_the_command(incomplete_run: sp.Run, tmp_path: Path) -> None:
    incomplete_run.save(tmp_path / "run")
    done = CliRunner().invoke(app, ["stats", str(tmp_path / "run"), "--completeness", "0.7", "--json"])
    assert done.exit_code == 0, done.output
    rows, facts = json.loads(done.output), len(incomplete_run.graph.facts())
    assert rows[-1]["relation"] == "(all)"
    assert rows[-1]["new_facts"] == pytest.approx(facts * 0.3 / 0.7)
    shown = CliRunner().invoke(app, ["stats", str(tmp_path / "run"), "--out", str(tmp_path / "stats.csv")])
    assert shown.exit_code == 0, shown.output
    header = (tmp_path / "stats.csv").read_text("utf-8").splitlines()[0]
    assert header == "relation,facts,mean,std,new_facts,new_error,likely,likely_facts"
