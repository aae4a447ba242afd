"""Answers by label, against scores of every triple."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import staypositive as sp
from conftest import quick_fit
from staypositive.errors import DataError, InputError, SettingError, UnknownLabelError
from staypositive.evaluation import sigmoid
from staypositive.inference import Predictor, read_queries
from staypositive.inference.ordering import grid
from staypositive.models import Scorer
from staypositive.service.query_service import QueryService
from staypositive.service.schemas import ScoreIn


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    graph = sp.load_graph("geo")
    model = sp.build_model("complex", len(graph.entities), len(graph.relations), 4, prior_score=-1.0)
    model.initialise(torch.Generator().manual_seed(0))
    return Predictor(graph, Scorer(model))


def test_tails_come_best_first(predictor: Predictor) -> None:
    answers = predictor.predict(head="France", relation="borders", top=50)
    assert answers.columns.tolist() == ["tail", "score", "known"]
    assert len(answers) == 50
    assert answers["score"].is_monotonic_decreasing
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
    assert whole.columns.tolist() == ["head", "relation", "tail", "score", "known"]
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
    found = predictor.find(asked, top=3)
    table = predictor.answer(asked, top=3)
    assert found.rows[:, 0].tolist() == table["query"].tolist()
    assert found.rows[:, 1].tolist() == (table["rank"] - 1).tolist()
    np.testing.assert_array_equal(found.scores, table["score"])
    assert np.isnan(found.log_odds).all()


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


def test_completeness_shifts_all_log_odds_alike(incomplete_run: sp.Run) -> None:
    whole = np.array([(h, r, t) for r in range(2) for h in range(40) for t in range(40)])
    predictor = incomplete_run.predictor
    base, moved = predictor.log_odds(whole), predictor.assuming(0.99).log_odds(whole)
    np.testing.assert_allclose(base - moved, (base - moved)[0], atol=1e-9)
    assert base[0] > moved[0]  # more complete: less is missing
    for side, question in (
        ("tail", {"head": "p0", "relation": "peer"}),
        ("head", {"relation": "peer", "tail": "p0"}),
        ("relation", {"head": "p0", "tail": "p5"}),
    ):
        some, few = (incomplete_run.predict(**question, completeness=share, top=40) for share in (None, 0.99))
        assert some[side].tolist() == few[side].tolist()
        assert (few["probability"].dropna() < some["probability"].dropna()).all()
        assert few.attrs["completeness"] == pytest.approx(0.99)
        assert some.attrs["completeness"] == incomplete_run.posterior.completeness
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="completeness is the share of true facts in the graph"):
            incomplete_run.predict(head="p0", relation="peer", completeness=share)


def test_there_is_no_completeness_without_probabilities(predictor: Predictor) -> None:
    assert np.isnan(predictor.assumed)
    assert predictor.assuming(None) is predictor
    with pytest.raises(InputError, match="there are no probabilities that a completeness could change"):
        predictor.assuming(0.5)


def test_known_facts_have_no_probability(incomplete_run: sp.Run) -> None:
    table = incomplete_run.predict(head="p0", relation="peer", top=40, exclude_self=True)
    assert list(table) == ["tail", "probability", "score", "known"]
    assert table["known"].any()
    assert not table["known"].all()
    assert (table["probability"].isna() == table["known"]).all()
    triples = np.array([(0, 0, tail) for tail in incomplete_run.graph.entities.ids(table["tail"])])
    triples[:, 0] = incomplete_run.graph.entities.id("p0")
    triples[:, 1] = incomplete_run.graph.relations.id("peer")
    odds = incomplete_run.predictor.log_odds(triples)
    assert np.isfinite(odds).all()
    assert (np.diff(grid(odds)) <= 0).all()  # known facts among the others, by what they would be if unknown
    peers = {f"p{number}" for number in range(0, 40, 5)} - {"p0"}  # seven: known or hidden
    assert set(table["tail"][:7]) == peers
    head, relation, tail = "p0", "peer", table["tail"][table["known"]].iloc[0]
    assert incomplete_run.predict(head, relation, tail)["probability"].isna().all()
    assert incomplete_run.predict_proba([(head, relation, tail)])[0] > 0.5


@pytest.mark.parametrize("completeness", [None, 0.8])
def test_one_triple_has_one_probability_everywhere(incomplete_run: sp.Run, completeness: float | None) -> None:
    run = incomplete_run
    row = run.discover(top=3, completeness=completeness).iloc[-1]
    head, relation, tail, chance = row["head"], row["relation"], row["tail"], row["probability"]
    own = {"completeness": completeness}
    answers = (
        run.predict(head, relation, **own, top=40).set_index("tail").loc[tail],
        run.predict(None, relation, tail, **own, top=40).set_index("head").loc[head],
        run.predict(head, None, tail, **own).set_index("relation").loc[relation],
        run.predict(head, relation, tail, **own).iloc[0],
        run.prediction_set(head, relation, coverage=0.999, **own).set_index("tail").loc[tail],
    )
    for answer in answers:
        assert answer["probability"] == pytest.approx(chance, abs=1e-9)
        assert answer["score"] == pytest.approx(row["score"], abs=1e-9)
    assert run.predict_proba([(head, relation, tail)], **own)[0] == pytest.approx(chance, abs=1e-9)
    service, triple = QueryService(run), {"head": head, "relation": relation, "tail": tail}
    (scored,) = service.score(ScoreIn(triples=[triple], **own)).triples
    found = scored if isinstance(scored, dict) else scored.model_dump()
    assert found["probability"] == pytest.approx(chance, abs=1e-9)
    assert sigmoid(found["log_odds"]) == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("listed", [20, 1000])
@pytest.mark.parametrize("question", [{"head": "p0"}, {"tail": "p1"}])
def test_fewer_answers_are_the_start_of_more(
    incomplete_run: sp.Run, question: dict[str, str], listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are judged besides those that facts link with the entity asked about."""
    monkeypatch.setattr("staypositive.inference.predictor.SHORTLIST", listed)
    whole = incomplete_run.predict(relation="below", top=20, **question)
    few = incomplete_run.predict(relation="below", top=5, **question)
    side = whole.columns[0]
    assert len(whole) == 20
    assert few[side].tolist() == whole[side].tolist()[:5]
    np.testing.assert_allclose(few["probability"], whole["probability"][:5], atol=1e-9)


def test_answers_that_facts_link_are_judged_whatever_their_score(
    incomplete_run: sp.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staypositive.inference.predictor.SHORTLIST", 1)
    found = incomplete_run.predictor.find([sp.Query("p0", "below", None)], top=1)
    asked = incomplete_run.graph.entities.id("p0")
    facts = incomplete_run.graph.facts()
    linked = set(facts[facts[:, 0] == asked, 2].tolist() + facts[facts[:, 2] == asked, 0].tolist())
    scores = incomplete_run.predictor.score(np.array([(asked, found.rows[0, 3], tail) for tail in range(40)]))
    judged = np.array(sorted(linked | {int(scores.argmax())}))
    triples = np.column_stack([np.full_like(judged, asked), np.full_like(judged, found.rows[0, 3]), judged])
    odds = incomplete_run.predictor.log_odds(triples)
    assert found.log_odds[0] == pytest.approx(odds.max(), abs=1e-9)


def test_a_question_that_fits_no_fact_is_noted(predictor: Predictor) -> None:
    assert predictor.predict(head="France", relation="borders").attrs["note"] is None
    assert predictor.predict(head="France", tail="Spain").attrs["note"] is None
    said = predictor.predict(head="Euro (EUR)", relation="borders").attrs["note"]
    assert said == "no fact has Euro (EUR) as head of borders; it is never a head"
    said = predictor.predict(relation="has_currency", tail="France").attrs["note"]
    assert said.startswith("no fact has France as tail of has_currency; its relations as tail are ")
    usual = said.split(" are ")[1].split(", ")
    facts, graph = predictor.graph.facts(), predictor.graph
    own = facts[facts[:, 2] == graph.entities.id("France"), 1]
    counts = {graph.relations[r]: int((own == r).sum()) for r in set(own.tolist())}
    assert sorted(counts.values(), reverse=True)[: len(usual)] == [counts[name] for name in usual]


def test_the_prior_of_labelled_triples_is_the_calibrators(planted: sp.KnowledgeGraph) -> None:
    run = quick_fit(planted, epochs=3)
    run.calibrate("platt")
    predictor, triples = run.predictor, planted.test.triples
    assert predictor.base_prior == 0.5
    plain = predictor.labelled_log_odds(triples)
    np.testing.assert_allclose(run.predict_proba(triples, like_labelled=True), sigmoid(plain))
    np.testing.assert_allclose(predictor.labelled_log_odds(triples, 0.5), plain)
    np.testing.assert_allclose(predictor.labelled_log_odds(triples, 0.01), plain + np.log(0.01 / 0.99))
    with pytest.raises(SettingError, match="probability"):
        predictor.labelled_log_odds(triples, 1.0)
    assert np.abs(predictor.log_odds(triples) - plain).max() > 0.1  # another question


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
    assert whole.drop(columns="score").equals(table.drop(columns="score"))
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
