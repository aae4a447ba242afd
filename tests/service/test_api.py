"""Every endpoint against the library's own answer, over a real connection."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest

import staypositive as sp
from service.serving import serving
from staypositive.evaluation import sigmoid
from staypositive.inference import FactIndex
from staypositive.models import logit


def ask(client: httpx.Client, path: str, **body: object) -> dict:
    reply = client.post(f"/api/{path}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def look(client: httpx.Client, path: str, **query: object) -> dict:
    reply = client.get(f"/api/{path}", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


def check_answers(reply: dict, expected: pd.DataFrame) -> None:
    """Compare an answer with the library's."""
    answers = reply["answers"]
    if missing := reply["missing"]:
        assert [one[missing] for one in answers] == expected[missing].tolist()
    np.testing.assert_allclose([one["score"] for one in answers], expected["score"], rtol=1e-5, atol=1e-12)
    assert [one["known"] for one in answers] == expected["known"].tolist()
    assert [one["rank"] for one in answers] == list(range(1, len(expected) + 1))
    chances = expected["probability"] if "probability" in expected else [math.nan] * len(expected)
    for one, chance in zip(answers, chances, strict=True):
        if math.isnan(chance):  # known, or there are none
            assert one["probability"] is None
        else:
            assert one["probability"] == pytest.approx(chance, rel=1e-5)
            assert one["probability"] == pytest.approx(sigmoid(one["log_odds"]))


@pytest.mark.parametrize(
    "question",
    [
        {"head": "Germany", "relation": "borders"},
        {"relation": "speaks", "tail": "French"},
        {"head": "France", "tail": "Spain"},
        {"head": "France", "relation": "borders", "tail": "Spain"},
    ],
)
def test_predict_is_the_librarys(client: httpx.Client, geo_run: sp.Run, question: dict) -> None:
    reply = ask(client, "predict", **question, top=7)
    check_answers(reply, geo_run.predict(**question, top=7))
    for one in reply["answers"]:
        assert {part: one[part] for part in question} == question


@pytest.mark.parametrize(
    "question",
    [
        {"head": "p0", "relation": "peer"},
        {"relation": "below", "tail": "p1"},
        {"head": "p0", "tail": "p1"},
        {"head": "p0", "relation": "below", "tail": "p2"},
    ],
)
@pytest.mark.parametrize("completeness", [None, 0.6])
def test_probabilities_are_the_librarys(
    judged: httpx.Client, judged_run: sp.Run, question: dict, completeness: float | None
) -> None:
    reply = ask(judged, "predict", **question, top=20, completeness=completeness)
    assert reply["completeness"] == pytest.approx(completeness or 0.8)
    expected = judged_run.predict(**question, top=20, completeness=completeness)
    assert not expected["known"].all()
    check_answers(reply, expected)


def test_a_question_that_is_odd_is_noted(client: httpx.Client, geo_run: sp.Run) -> None:
    odd = {"head": "Euro (EUR)", "relation": "borders"}
    note = ask(client, "predict", **odd)["note"]
    assert note == geo_run.predict(**odd).attrs["note"]
    assert "Euro (EUR)" in note
    assert ask(client, "predict", head="Germany", relation="borders")["note"] is None


def test_predict_options(client: httpx.Client, geo_run: sp.Run) -> None:
    question = {"head": "Germany", "relation": "borders", "top": 20}
    options = {"exclude_known": True, "exclude_self": True, "candidates": "range"}
    expected = geo_run.predict(**question, **options)
    assert [one["tail"] for one in ask(client, "predict", **question, **options)["answers"]] == expected[
        "tail"
    ].tolist()
    listed = ask(client, "predict", **question, candidates=["Spain", "Peru"])["answers"]
    assert {one["tail"] for one in listed} == {"Spain", "Peru"}


def test_another_completeness_is_an_addition_to_log_odds(judged: httpx.Client, judged_run: sp.Run) -> None:
    """What the page does on its own: `shifts` go evenly in log-odds of completeness, with 0 at the run's."""
    about = look(judged, "run")
    shares, shifts = zip(*about["shifts"], strict=True)
    assert about["completeness"] == pytest.approx(0.8)
    assert shifts[shares.index(about["completeness"])] == 0
    assert shares[0] <= 0.5 < 0.995 <= shares[-1] + 1e-9
    assert list(shifts) == sorted(shifts, reverse=True)
    plain = ask(judged, "predict", head="p0", relation="peer")
    for completeness in (0.6, 0.93):
        moved = ask(judged, "predict", head="p0", relation="peer", completeness=completeness)
        shift = np.interp(logit(completeness), [logit(share) for share in shares], shifts)
        for before, after in zip(plain["answers"], moved["answers"], strict=True):
            assert after["log_odds"] == pytest.approx(before["log_odds"] + shift, abs=1e-3)


def test_coverages_are_those_of_prediction_sets(client: httpx.Client, geo_run: sp.Run) -> None:
    reply = ask(client, "predict", head="Germany", relation="borders", top=40, coverages=True)
    for percent in (50, 80, 90, 99):
        found = set(geo_run.prediction_set("Germany", "borders", coverage=percent / 100)["tail"])
        assert reply["set_sizes"][percent - 1] == len(found)
        inside = {
            one["tail"]
            for one in reply["answers"]
            if one["entry_coverage"] is not None and percent / 100 > one["entry_coverage"]
        }
        assert inside == found & {one["tail"] for one in reply["answers"]}
    assert all((one["entry_coverage"] is None) == one["known"] for one in reply["answers"])
    assert ask(client, "predict", head="France", tail="Spain", coverages=True)["set_sizes"] is None


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_prediction_sets(client: httpx.Client, geo_run: sp.Run, coverage: float) -> None:
    for question in ({"relation": "speaks", "tail": "French"}, {"head": "Germany", "relation": "borders"}):
        reply = ask(client, "prediction-set", **question, coverage=coverage)
        expected = geo_run.prediction_set(**question, coverage=coverage)
        side = expected.columns[0]
        assert reply["size"] == len(reply["answers"]) == len(expected)
        assert {one[side] for one in reply["answers"]} == set(expected[side])
        scores = dict(zip(expected[side], expected["score"], strict=True))
        for one in reply["answers"]:
            assert one["score"] == pytest.approx(scores[one[side]], rel=1e-5)
    assert len(ask(client, "prediction-set", **question, coverage=coverage, top=1)["answers"]) <= 1
    pooled = ask(client, "prediction-set", **question, coverage=coverage, per_relation=False)["size"]
    assert pooled == len(geo_run.prediction_set(**question, coverage=coverage, per_relation=False))


def test_prediction_sets_have_probabilities(judged: httpx.Client, judged_run: sp.Run) -> None:
    question = {"head": "p0", "relation": "peer", "coverage": 0.95, "completeness": 0.6}
    reply, expected = ask(judged, "prediction-set", **question), judged_run.prediction_set(**question)
    assert reply["completeness"] == pytest.approx(0.6)
    assert reply["size"] == len(expected)
    chances = dict(zip(expected["tail"], expected["probability"], strict=True))
    for one in reply["answers"]:
        assert one["probability"] == pytest.approx(chances[one["tail"]], rel=1e-5)


def test_a_batch_is_its_questions_one_by_one(judged: httpx.Client) -> None:
    queries = [
        {"head": "p0", "relation": "peer"},
        {"relation": "below", "tail": "p1"},
        {"head": "p0", "tail": "p1"},
        {"head": "p0", "relation": "below", "tail": "p2"},
    ]
    batch = ask(judged, "predict/batch", queries=queries, top=12, completeness=0.6)
    assert batch["completeness"] == pytest.approx(0.6)
    for query, result in zip(queries, batch["results"], strict=True):
        alone = ask(judged, "predict", **query, top=12, completeness=0.6)["answers"]
        for got, expected in zip(result, alone, strict=True):
            for key in ("head", "relation", "tail", "rank", "known"):
                assert got[key] == expected[key]
            assert got["log_odds"] == pytest.approx(expected["log_odds"], rel=1e-5, abs=1e-9)
            assert (got["probability"] is None) == got["known"]


def test_questions_that_come_together_are_answered_apart(client: httpx.Client, address: str) -> None:
    """Sixteen at once, of four kinds, some of them wrong: each gets its own."""
    bodies = []
    for number in range(16):
        head = ("Germany", "France", "Peru", "Atlantis")[number % 4]
        bodies.append({"head": head, "relation": "borders", "top": 1 + number % 5, "exclude_known": number % 2 == 0})
    expected = [client.post("/api/predict", json=body) for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda body: httpx.post(f"{address}/api/predict", json=body, timeout=60), bodies))
    for got, alone in zip(replies, expected, strict=True):
        assert got.status_code == alone.status_code
        if got.status_code == 200:
            assert [one["tail"] for one in got.json()["answers"]] == [one["tail"] for one in alone.json()["answers"]]
        else:
            assert got.json() == alone.json()


def test_scores_of_triples(judged: httpx.Client, judged_run: sp.Run) -> None:
    fact = tuple(judged_run.graph.labelled(judged_run.graph.train.facts[:1])[0])
    triples = [("p0", "peer", "p1"), fact, ("p0", "below", "p2")]
    body = [dict(zip(("head", "relation", "tail"), triple, strict=True)) for triple in triples]
    reply = ask(judged, "score", triples=body, completeness=0.6)["triples"]
    for triple, got in zip(triples, reply, strict=True):
        expected = judged_run.predict(*triple, completeness=0.6).iloc[0]
        assert (got["head"], got["relation"], got["tail"]) == triple
        assert got["score"] == pytest.approx(expected["score"], rel=1e-5)
        assert got["known"] == bool(expected["known"]) == (triple == fact)
        if got["known"]:
            assert got["probability"] is None
        else:
            assert got["probability"] == pytest.approx(expected["probability"], rel=1e-5)


def test_explanations(client: httpx.Client, geo_run: sp.Run) -> None:
    triple = {"head": "Slovenia", "relation": "has_currency", "tail": "Euro (EUR)"}
    assert ask(client, "explain", **triple, top=5)["facts"] == geo_run.explain(**triple, top=5).to_dict("records")


def test_entities_are_found(client: httpx.Client, geo_run: sp.Run) -> None:
    found = look(client, "entities", search="germ", top=3)["entities"]
    assert found[0]["entity"] == "Germany"
    degrees = FactIndex(geo_run.graph).degrees
    assert found[0]["facts"] == degrees[geo_run.graph.entities.id("Germany")]
    first = look(client, "entities", top=1)["entities"][0]
    assert first["facts"] == degrees.max()
    assert look(client, "entities", search="no such place")["entities"] == []


def test_similar_facts_and_neighbourhood(client: httpx.Client, geo_run: sp.Run) -> None:
    similar = look(client, "similar", entity="Norway", top=4)["entities"]
    assert similar == geo_run.similar("Norway", 4).to_dict("records")
    graph = geo_run.graph
    own, borders = graph.entities.id("Norway"), graph.relations.id("borders")
    facts = look(client, "facts", entity="Norway", top=1000)
    assert facts["total"] == len(facts["facts"]) == sum(own in (h, t) for h, _, t in graph.facts().tolist())
    for fact in facts["facts"]:
        triple = [
            graph.entities.id(fact["head"]),
            graph.relations.id(fact["relation"]),
            graph.entities.id(fact["tail"]),
        ]
        assert (graph.split(fact["split"]).facts == triple).all(1).any()
    only = look(client, "facts", entity="Norway", relation="borders")
    assert only["total"] == sum(own in (h, t) and r == borders for h, r, t in graph.facts().tolist())
    around = look(client, "neighbourhood", entity="Norway", top=6)
    assert around["entities"][0] == "Norway"
    assert len(around["entities"]) == 7
    known = set(map(tuple, graph.facts().tolist()))
    for head, relation, tail in around["edges"]:
        ids = (graph.entities.id(around["entities"][head]), graph.relations.id(relation),
               graph.entities.id(around["entities"][tail]))  # fmt: skip
        assert ids in known


def test_relations(client: httpx.Client, geo_run: sp.Run) -> None:
    relations = look(client, "relations")["relations"]
    assert [one["relation"] for one in relations] == list(geo_run.graph.relations)
    assert relations[0] == {"relation": "borders", "facts": 648, "heads": 159, "tails": 161}


def test_score_statistics(judged: httpx.Client, judged_run: sp.Run) -> None:
    stats = look(judged, "stats", threshold=0.4, completeness=0.6)
    assert stats["completeness"] == pytest.approx(0.6)
    expected = judged_run.stats(threshold=0.4, completeness=0.6)
    assert set(stats["rows"][0]) == set(expected)
    assert [row["relation"] for row in stats["rows"]] == expected["relation"].tolist()
    for key in set(expected) - {"relation"}:
        np.testing.assert_allclose([row[key] for row in stats["rows"]], expected[key], rtol=1e-6)
    assert look(judged, "stats", threshold=0.4, completeness=0.6) == stats


def test_discovery(judged: httpx.Client, judged_run: sp.Run) -> None:
    asked = {"relations": ["peer", "below"], "min_probability": 0.05, "completeness": 0.6, "top": 15}
    reply, expected = ask(judged, "discover", **asked), judged_run.discover(**asked)
    assert reply["completeness"] == pytest.approx(0.6)
    chances = [one["probability"] for one in reply["triples"]]
    assert 0 < len(chances) <= 15
    np.testing.assert_allclose(chances, expected["probability"], rtol=1e-5)
    assert not any(one["known"] for one in reply["triples"])
    assert [one["rank"] for one in reply["triples"]] == list(range(1, len(chances) + 1))
    assert ask(judged, "discover", relations=["peer"], min_probability=0.9999999)["triples"] == []


def test_about_health_ready_and_metrics(client: httpx.Client, geo_run: sp.Run) -> None:
    about = look(client, "run")
    assert about["graph"] == geo_run.graph.counts()
    assert (about["model"], about["objective"]) == ("complex", "second-moment")
    assert about["no_probability"] == geo_run.why_no_probability()
    assert about["prediction_sets"] is True
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ok"}  # what came before has waited for the warming
    client.get("/no/such/path")
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    lines = reply.text.splitlines()
    assert any(line.startswith('staypositive_requests_total{path="/health",status="200"}') for line in lines)
    assert any(line.startswith('staypositive_requests_total{path="other",status="404"}') for line in lines)
    buckets = [
        int(line.split()[-1])
        for line in lines
        if line.startswith('staypositive_request_seconds_bucket{path="/health"')
    ]
    assert buckets == sorted(buckets)
    counts = [line for line in lines if line.startswith('staypositive_request_seconds_count{path="/health"')]
    assert int(counts[0].split()[-1]) == buckets[-1]
    assert "no/such" not in reply.text


def test_a_run_without_held_out_facts_says_so(planted: sp.KnowledgeGraph) -> None:
    few = sp.KnowledgeGraph(
        "few", planted.entities, planted.relations, planted.train, sp.Split(planted.valid.triples[:0]), planted.test
    )
    with serving(sp.fit(few, model="distmult", dim=4, epochs=1)) as address, httpx.Client(base_url=address) as client:
        assert look(client, "run")["prediction_sets"] is False
        assert ask(client, "predict", head="p1", relation="ally")["answers"]
        reply = client.post("/api/prediction-set", json={"head": "p1", "relation": "ally"})
        assert reply.status_code == 400
        assert "at least 10 held-out facts" in reply.json()["error"]["message"]
        page = client.post("/api/predict", json={"head": "p1", "relation": "ally", "coverages": True})
        assert page.status_code == 200
        assert page.json()["set_sizes"] is None


def test_a_run_without_probabilities_has_scores(planted: sp.KnowledgeGraph) -> None:
    run = sp.fit(planted, model="distmult", dim=4, epochs=1)
    with serving(run) as address, httpx.Client(base_url=address, timeout=60) as client:
        about = look(client, "run")
        assert (about["completeness"], about["shifts"]) == (None, [])
        assert "calibrate" in about["no_probability"]
        reply = ask(client, "predict", head="p1", relation="ally", top=40)
        assert reply["completeness"] is None
        check_answers(reply, run.predict("p1", "ally", top=40))
        assert {one["log_odds"] for one in reply["answers"]} == {None}
        stats = look(client, "stats")
        assert {row["new_facts"] for row in stats["rows"]} == {None}
        found = ask(client, "discover", relations=["ally"], top=5)["triples"]
        scores = [one["score"] for one in found]
        np.testing.assert_allclose(scores, run.discover(relations=["ally"], top=5)["score"], rtol=1e-6)
        assert {one["probability"] for one in found} == {None}
        refused = client.get("/api/stats", params={"completeness": 0.9})
        assert refused.status_code == 400
        assert "no probabilities" in refused.json()["error"]["message"]
