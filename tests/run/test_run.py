"""What a `Run` can do by itself: finish, answer in tables, name its metrics and show what it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from staypositive.errors import InputError
from staypositive.evaluation import sigmoid
from staypositive.inference import discover


@pytest.fixture
def run(planted: sp.KnowledgeGraph) -> sp.Run:
    return sp.fit(planted, dim=8, epochs=6)


def test_finish_calibrates_evaluates_and_saves(run: sp.Run, tmp_path: Path) -> None:
    done = run.finish(folder=tmp_path / "run")
    assert done["run"] == str(tmp_path / "run")
    assert done["epochs"] == len(run.history)
    assert set(done["metrics"]["test"]) == {"ranking", "discovery", "classification"}
    assert run.calibrator is not None
    assert run.calibrator.name in done["metrics"]["test"]["classification"]["all"]
    assert sp.load_run(tmp_path / "run").summary() == run.summary()


def test_finish_leaves_out_what_it_is_told_to(run: sp.Run) -> None:
    done = run.finish(calibrate="none", evaluate=False)
    assert (run.calibrator, done["metrics"], "run" in done) == (None, {}, False)


def test_discover_gives_the_most_likely_of_all_relations(run: sp.Run) -> None:
    run.calibrate()
    wanted = {"min_probability": 0.05, "completeness": 0.8}
    table = run.discover(**wanted)
    assert list(table) == ["head", "relation", "tail", "probability", "score"]
    assert len(table) == sum(len(own.triples) for own in discover(run.predictor.assuming(0.8), min_probability=0.05))
    assert table["probability"].is_monotonic_decreasing
    pd.testing.assert_frame_equal(run.discover(**wanted, top=5), table[:5])
    own = table[table["relation"] == "ally"].reset_index(drop=True)
    pd.testing.assert_frame_equal(run.discover(**wanted, relations="ally"), own)
    assert run.discover(min_probability=0.3, relations=[]).empty
    chances = run.predict_proba(own[["head", "relation", "tail"]], completeness=0.8)
    np.testing.assert_allclose(chances, own["probability"], atol=1e-12)


def test_stats_counts_each_relation_and_all(run: sp.Run) -> None:
    table = run.stats(threshold=0.4)
    assert table["relation"].tolist() == [*run.graph.relations, "(all)"]


def test_a_report_is_text_or_a_file(run: sp.Run, tmp_path: Path) -> None:
    assert "<h1>complex on" in run.report(points=20)
    path = run.report(tmp_path / "page.html", points=20)
    assert path == tmp_path / "page.html"
    assert path.exists()


def test_embeddings_go_by_label(run: sp.Run) -> None:
    rows = run.embeddings
    head, relation, tail = run.graph.train.facts[0].tolist()
    labels = run.graph.entities[head], run.graph.relations[relation], run.graph.entities[tail]
    product = run.model.score_rows(*(
        run.model.entities.new_tensor(rows[kind].loc[label].to_numpy())
        for kind, label in zip(("entities", "relations", "entities"), labels, strict=True)
    ))  # fmt: skip
    backward = run.model.score_rows(run.model.entity_rows()[tail], run.model.relation_rows()[relation + 2],
                                    run.model.entity_rows()[head])  # fmt: skip
    score = run.predict(*labels)["score"][0]
    assert (product.item() + backward.item()) / 2 == pytest.approx(score, abs=1e-6)
    assert list(rows["relations"].index) == ["ally", "rival", "ally_inverse", "rival_inverse"]


def test_predict_proba_takes_labels_ids_and_frames(run: sp.Run) -> None:
    ids = run.graph.test.triples[:4]
    words = run.graph.entities, run.graph.relations, run.graph.entities
    labels = [tuple(own[i] for own, i in zip(words, row, strict=True)) for row in ids.tolist()]
    run.calibrate()
    expected = sigmoid(run.predictor.log_odds(ids))
    frame = pd.DataFrame(labels, columns=["head", "relation", "tail"])[["tail", "head", "relation"]]
    for triples in (ids, ids.tolist(), labels, frame):
        np.testing.assert_allclose(run.predict_proba(triples), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("triples", "said"),
    [
        ([("p0", "ally")], "shape (n, 3), got (1, 2)"),
        ([("p0", "ally", "p1"), ("p0",)], "shape (n, 3), got (2,)"),
        ([("p0", "ally", 3)], "triples are labels or ids throughout"),
        ([(0, 2, 1)], "ids of relation labels go from 0 to 1, got 2 to 2"),
        ([(0, 0, -1)], "ids of entity labels go from 0 to"),
        ([("p0", "alli", "p1")], "no relation is called 'alli' in this graph. Did you mean 'ally'"),
    ],
)
def test_predict_proba_refuses_what_are_no_triples(planted_run: sp.Run, triples: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        planted_run.predict_proba(triples)


def test_metrics_go_by_name(run: sp.Run) -> None:
    assert run.metric("mrr") == run.metrics["test"]["ranking"]["filtered"]["realistic"]["both"]["mrr"]
    raw = run.metrics["test"]["ranking"]["raw"]["optimistic"]["head"]["hits@10"]
    assert run.metric("hits@10", side="head", filter="raw", ties="optimistic") == raw
    before = run.metric("auc")
    run.calibrate("platt")  # what classification measured without it is dropped, and measured again when asked for
    assert run.metric("nll") == run.metrics["test"]["classification"]["all"]["platt"]["nll"]
    assert run.metric("auc", calibration="uncalibrated") == pytest.approx(before)
    assert 0 < run.metric("mrr", "valid") <= 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "mmr"}, "there is no metric 'mmr' of test; there are mrr, mr, hits@1, "),
        ({"name": "mrr", "side": "both sides"}, "expected both, head or tail, got 'both sides'"),
        ({"name": "mrr", "filter": "none"}, "expected filtered or raw, got 'none'"),
        ({"name": "mrr", "split": "dev"}, "expected a split among train, valid, test, got 'dev'"),
        ({"name": "nll", "calibration": "beta"}, "no classification by 'beta'; there is uncalibrated"),
    ],
)
def test_a_metric_that_is_not_there_is_refused(planted_run: sp.Run, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        planted_run.metric(**asked)


def test_repr_says_what_a_run_is(run: sp.Run) -> None:
    name = run.graph.name
    assert repr(run) == (
        f"<Run complex on {name} by second-moment (preset auto), best epoch {run.best_epoch} of 6, "
        "probabilities none>"
    )
    run.calibrate()
    assert repr(run).endswith(f"probabilities at completeness {run.posterior.completeness:.4g}>")
    paper = sp.fit(run.graph, preset="paper", dim=2, epochs=1)
    assert "by stay-positive (preset paper), best epoch 1 of 1" in repr(paper)
    assert "preset" not in repr(sp.fit(run.graph, model="cp", dim=2, epochs=1))


def test_notebooks_show_a_table(run: sp.Run) -> None:
    run.evaluate("test")
    run.metrics["<b>"] = {"ranking": "damaged"}
    page = run._repr_html_()
    assert f"<th>test</th><td>mrr {run.metric('mrr'):.4f}, hits@10 " in page
    assert "<th>&lt;b&gt;</th><td></td>" in page
    assert "<th>objective</th><td>second-moment (preset auto)</td>" in page
