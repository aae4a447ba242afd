"""Answers by label, against scores of every triple."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import staypositive as sp
from staypositive.errors import DataError, InputError, SettingError, UnknownLabelError
from staypositive.evaluation import sigmoid
from staypositive.inference import Predictor, read_queries
from staypositive.models import Scorer


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    graph = sp.load_graph("geo")
    model = sp.build_model("complex", len(graph.entities), len(graph.relations), 4, prior_score=-1.0)
    model.initialise(torch.Generator().manual_seed(0))
    return Predictor(graph, Scorer(model))


def test_tails_come_best_first_with_probabilities(predictor: Predictor) -> None:
    answers = predictor.predict(head="France", relation="borders", top=50)
    assert answers.columns.tolist() == ["tail", "probability", "score", "known"]
    assert len(answers) == 50
    assert answers["score"].is_monotonic_decreasing
    np.testing.assert_allclose(answers["probability"], sigmoid(answers["score"] - 1.0))
    graph = predictor.graph
    france, borders = graph.entities.id("France"), graph.relations.id("borders")
    scores = predictor.scorer.tails(torch.tensor([france]), torch.tensor([borders]))[0]
    assert answers["tail"].iloc[0] == graph.entities[int(scores.argmax())]
    neighbours = {graph.entities[t] for h, r, t in graph.facts().tolist() if (h, r) == (france, borders)}
    assert set(answers["tail"][answers["known"]]) == neighbours & set(answers["tail"])


def test_the_three_directions_agree_on_one_triple(predictor: Predictor) -> None:
    n = len(predictor.graph.entities)
    tails = predictor.predict(head="France", relation="borders", top=n).set_index("tail")
    heads = predictor.predict(relation="borders", tail="Spain", top=n).set_index("head")
    relations = predictor.predict(head="France", tail="Spain", top=99).set_index("relation")
    whole = predictor.predict("France", "borders", "Spain")
    assert whole.columns.tolist() == ["head", "relation", "tail", "probability", "score", "known"]
    for table, label in ((tails, "Spain"), (heads, "France"), (relations, "borders")):
        assert table.loc[label, "score"] == pytest.approx(whole["score"].iloc[0], abs=1e-5)
        assert bool(table.loc[label, "known"])
    assert len(tails) == n
    assert len(relations) == len(predictor.graph.relations)


def test_exclude_known_leaves_out_facts_of_every_split(predictor: Predictor) -> None:
    n = len(predictor.graph.entities)
    answers = predictor.predict(head="France", relation="borders", top=n, exclude_known=True)
    assert not answers["known"].any()
    assert "Spain" not in set(answers["tail"])
    assert len(answers) == n - 8  # France has eight neighbours
    assert "borders" not in set(predictor.predict(head="France", tail="Spain", exclude_known=True)["relation"])
    assert "France" not in set(predictor.predict(relation="borders", tail="Spain", top=n, exclude_known=True)["head"])


def test_exclude_self_leaves_out_the_entity_asked_about(predictor: Predictor) -> None:
    n = len(predictor.graph.entities)
    for given, side in (({"head": "France"}, "tail"), ({"tail": "France"}, "head")):
        every = predictor.predict(relation="near", top=n, **given)
        without = predictor.predict(relation="near", top=n, exclude_self=True, **given)
        assert without[side].tolist() == [label for label in every[side] if label != "France"]
    both = predictor.predict(head="France", tail="France", exclude_self=True)
    assert len(both) == len(predictor.graph.relations)


def test_what_is_found_by_ids_is_what_tables_show(predictor: Predictor) -> None:
    asked = [sp.Query("France", None, "Spain"), sp.Query("Japan", "borders", None), sp.Query("Peru", "near", "Chile")]
    found, scores = predictor.find(asked, top=3)
    table = predictor.answer(asked, top=3)
    assert found[:, 0].tolist() == table["query"].tolist()
    assert found[:, 1].tolist() == (table["rank"] - 1).tolist()
    np.testing.assert_array_equal(scores, table["score"])


def test_candidates_by_range_and_by_list(predictor: Predictor) -> None:
    ranged = predictor.predict(head="Japan", relation="has_currency", top=9999, candidates="range")
    facts, graph = predictor.graph.train.facts, predictor.graph
    expected = {graph.entities[t] for _, r, t in facts.tolist() if r == graph.relations.id("has_currency")}
    assert set(ranged["tail"]) == expected
    listed = predictor.predict(head="Japan", relation="has_currency", candidates=["Yen (JPY)", "Euro (EUR)"])
    assert set(listed["tail"]) == {"Yen (JPY)", "Euro (EUR)"}
    only = predictor.predict(head="France", tail="Spain", candidates=["near"])
    assert only["relation"].tolist() == ["near"]
    with pytest.raises(InputError, match="range belongs to a relation"):
        predictor.predict(head="France", tail="Spain", candidates="range")
    with pytest.raises(InputError, match="list of labels"):
        predictor.predict(head="France", relation="borders", candidates="Spain")
    with pytest.raises(UnknownLabelError):
        predictor.predict(head="France", relation="borders", candidates=["Spein"])


def test_a_misspelt_label_gets_suggestions(predictor: Predictor) -> None:
    with pytest.raises(UnknownLabelError, match="Did you mean 'France'"):
        predictor.predict(head="Frannce", relation="borders")
    with pytest.raises(UnknownLabelError, match=r"no relation is called 'border'.*'borders'"):
        predictor.predict(head="France", relation="border")


def test_prior_shifts_the_odds_and_not_the_order(predictor: Predictor) -> None:
    base = predictor.predict(head="France", relation="borders")
    rare = predictor.predict(head="France", relation="borders", prior=0.01)
    assert base["tail"].tolist() == rare["tail"].tolist()
    odds = [frame["probability"] / (1 - frame["probability"]) for frame in (base, rare)]
    prior_odds = float(np.exp(-1.0))  # the model's ψ is −1
    np.testing.assert_allclose(odds[1] / odds[0], (0.01 / 0.99) / prior_odds)
    with pytest.raises(SettingError, match="probability"):
        predictor.predict(head="France", relation="borders", prior=1.0)


def test_prior_of_a_calibrated_run_is_the_calibrators(planted_run: sp.Run) -> None:
    planted_run.calibrate("platt")
    assert planted_run.predictor.base_prior == 0.5
    same = planted_run.predict("p0", "ally", prior=0.5)
    np.testing.assert_allclose(same["probability"], planted_run.predict("p0", "ally")["probability"])


def test_queries_from_a_file(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text(
        "France\tborders\t?\n?\tborders\tSpain\nFrance\t?\tSpain\nFrance\tborders\tSpain\nJapan\tborders\t?\n",
        "utf-8",
    )
    queries = read_queries(path, predictor.graph)
    done: list[int] = []
    table = predictor.answer(queries, top=3, memory=1, progress=done.append)
    assert table.groupby("query").size().tolist() == [3, 3, 3, 1, 3]
    assert table["rank"].tolist() == [1, 2, 3] * 3 + [1] + [1, 2, 3]
    single = predictor.predict(head="Japan", relation="borders", top=3)
    assert table[table["query"] == 4]["tail"].tolist() == single["tail"].tolist()
    assert sum(done) == 4  # whole triples need no ranking
    whole = predictor.answer(queries, top=3)
    assert whole.drop(columns=["score", "probability"]).equals(table.drop(columns=["score", "probability"]))
    np.testing.assert_allclose(whole["score"], table["score"], atol=1e-5)


def test_bad_queries_are_named(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text("France\tborders\t?\nFrance\t?\t?\n", "utf-8")
    with pytest.raises(DataError, match=r"queries.tsv:2: .*lacks relation and tail"):
        read_queries(path, predictor.graph)
    path.write_text("France\tborders\t?\nFrance\tbordres\t?\n", "utf-8")
    with pytest.raises(DataError, match=r"queries.tsv:2: no relation is called 'bordres'"):
        read_queries(path, predictor.graph)
    with pytest.raises(InputError, match="top"):
        predictor.predict(head="France", relation="borders", top=0)


def test_no_queries_give_an_empty_table(predictor: Predictor) -> None:
    assert len(predictor.answer([])) == 0


def test_similar_entities(predictor: Predictor) -> None:
    rows = predictor.scorer.entity_rows
    own = predictor.graph.entities.id("France")
    cosine = torch.nn.functional.cosine_similarity(rows, rows[own][None])
    cosine[own] = -2
    table = predictor.similar("France", top=4)
    assert table["entity"].iloc[0] == predictor.graph.entities[int(cosine.argmax())]
    assert table["similarity"].tolist() == pytest.approx(cosine.topk(4).values.tolist(), abs=1e-5)
    assert "France" not in set(predictor.similar("France", top=10**6)["entity"])
    with pytest.raises(InputError, match="top"):
        predictor.similar("France", top=0)
