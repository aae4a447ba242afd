"""Reports with and without unseen entities, and provenance outside a checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import staypositive as sp
from experiments.store import rows_of_run
from staypositive.cli.console import Console, evaluation_tables
from staypositive.graph import Split, Vocabulary
from staypositive.run import provenance


@pytest.fixture(scope="module")
def with_stranger(planted: sp.KnowledgeGraph) -> sp.KnowledgeGraph:
    """The planted graph, and a stranger whom only test mentions: one fact and one falsehood."""
    stranger = len(planted.entities)
    triples = np.concatenate([planted.test.triples, [(stranger, 0, 1), (stranger, 1, 1)]])
    signs = np.concatenate([planted.test.signs, [1, -1]])
    entities = Vocabulary("entity", (*planted.entities, "stranger"))
    return sp.KnowledgeGraph("s", entities, planted.relations, planted.train, planted.valid, Split(triples, signs))


def test_unseen_entities_are_reported_apart(
    with_stranger: sp.KnowledgeGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sp.fit(with_stranger, dim=4, epochs=2)
    run.calibrate("platt")
    report = run.evaluate("test")
    facts = len(with_stranger.test.facts)
    assert report["ranking"]["queries"] == 2 * facts
    assert report["ranking"]["without_unseen"]["queries"] == 2 * (facts - 1)
    ranks = run.ranks["test"]
    keep = np.arange(2 * facts) % facts != facts - 1
    assert report["ranking"]["without_unseen"]["mr"] == pytest.approx(ranks.ranks()[keep].mean())
    assert report["classification"]["without_unseen"]["triples"] == len(with_stranger.test) - 2
    evaluation_tables(Console(), "test", report)
    assert "seen entities" in capsys.readouterr().out
    rows = rows_of_run(run, "test", "c", experiment="e", setting="s", selected_on="valid")
    assert {row["unseen"] for row in rows if row["metric"] in ("mrr", "nll")} == {"with", "without"}


def test_a_test_split_of_facts_alone_has_no_classification(planted: sp.KnowledgeGraph) -> None:
    facts = sp.KnowledgeGraph(
        "f", planted.entities, planted.relations, planted.train, planted.valid, Split(planted.test.facts)
    )
    run = sp.fit(facts, dim=4, epochs=1)
    assert set(run.evaluate("test")) == {"ranking"}
    with pytest.raises(sp.InputError, match="ranking is all there is"):
        run.evaluate("test", ranking=False)
    rows = rows_of_run(run, "test", "c", experiment="e", setting="s", selected_on="valid")
    assert {row["metric"] for row in rows} > {"mrr", "epoch_seconds"}


def test_code_outside_a_checkout_has_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    provenance.code_commit.cache_clear()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))  # temporary files may lie in a checkout
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert provenance.code_commit() == ""
    provenance.code_commit.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git at all
    assert provenance.code_commit() == ""
    provenance.code_commit.cache_clear()
