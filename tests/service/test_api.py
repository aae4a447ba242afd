"""Every endpoint against the library's own answer, over a real connection."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

import staypositive as sp
from service.serving import serving
from staypositive.evaluation import sigmoid
from staypositive.inference import FactIndex, discover, score_statistics


def ask(client: httpx.Client, path: str, **body: object) -> dict:
    reply = client.post(f"/api/{path}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def look(client: httpx.Client, path: str, **query: object) -> dict:
    reply = client.get(f"/api/{path}", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(
    "question",
    [
        {"head": "Germany", "relation": "borders"},
        {"relation": "speaks", "tail": "French"},
        {"head": "France", "tail": "Spain"},
        {"head": "France", "relation": "borders", "tail": "Spain"},
    ],
)
@pytest.mark.parametrize("prior", [None, 0.03])
def test_predict_is_the_librarys(client: httpx.Client, geo_run: sp.Run, question: dict, prior: float | None) -> None:
    reply = ask(client, "predict", **question, top=7, prior=prior)
    expected = geo_run.predict(**question, top=7, prior=prior)
    missing = reply["missing"]
    assert reply["prior"] == (prior or geo_run.predictor.base_prior)
    if missing:
        assert [one[missing] for one in reply["answers"]] == expected[missing].tolist()
    for key in ("probability", "score"):
        np.testing.assert_allclose([one[key] for one in reply["answers"]], expected[key], rtol=1e-5, atol=1e-12)
    assert [one["known"] for one in reply["answers"]] == expected["known"].tolist()
    assert [one["rank"] for one in reply["answers"]] == list(range(1, len(expected) + 1))
    for one in reply["answers"]:
        assert one["probability"] == pytest.approx(sigmoid(one["log_odds"]))
        assert {part: one[part] for part in question} == question


def test_predict_options(client: httpx.Client, geo_run: sp.Run) -> None:
    question = {"head": "Germany", "relation": "borders", "top": 20}
    options = {"exclude_known": True, "exclude_self": True, "candidates": "range"}
    expected = geo_run.predict(**question, **options)
    assert [one["tail"] for one in ask(client, "predict", **question, **options)["answers"]] == expected[
        "tail"
    ].tolist()
    listed = ask(client, "predict", **question, candidates=["Spain", "Peru"])["answers"]
    assert {one["tail"] for one in listed} == {"Spain", "Peru"}


def test_another_prior_is_an_addition_of_log_odds(client: httpx.Client) -> None:
    """What the page does on its own: log-odds + logit(new) − logit(base)."""
    plain = ask(client, "predict", head="Japan", relation="speaks")
    moved = ask(client, "predict", head="Japan", relation="speaks", prior=0.01)
    shift = math.log(0.01 / 0.99) - math.log(plain["prior"] / (1 - plain["prior"]))
    for before, after in zip(plain["answers"], moved["answers"], strict=True):
        assert after["log_odds"] == pytest.approx(before["log_odds"] + shift)


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
        reply = ask(client, "prediction-set", **question, coverage=coverage, prior=0.02)
        expected = geo_run.prediction_set(**question, coverage=coverage, prior=0.02)
        side = expected.columns[0]
        assert reply["size"] == len(reply["answers"]) == len(expected)
        assert {one[side] for one in reply["answers"]} == set(expected[side])
        chances = dict(zip(expected[side], expected["probability"], strict=True))
        for one in reply["answers"]:
            assert one["probability"] == pytest.approx(chances[one[side]], rel=1e-5)
    assert len(ask(client, "prediction-set", **question, coverage=coverage, top=1)["answers"]) <= 1
    pooled = ask(client, "prediction-set", **question, coverage=coverage, per_relation=False)["size"]
    assert pooled == len(geo_run.prediction_set(**question, coverage=coverage, per_relation=False))


def test_a_batch_is_its_questions_one_by_one(client: httpx.Client) -> None:
    queries = [
        {"head": "Germany", "relation": "borders"},
        {"relation": "has_currency", "tail": "Euro (EUR)"},
        {"head": "France", "tail": "Spain"},
        {"head": "Peru", "relation": "borders", "tail": "Chile"},
    ]
    results = ask(client, "predict/batch", queries=queries, top=4, prior=0.1)["results"]
    for query, result in zip(queries, results, strict=True):
        alone = ask(client, "predict", **query, top=4, prior=0.1)["answers"]
        assert [one["rank"] for one in result] == [one["rank"] for one in alone]
        for got, expected in zip(result, alone, strict=True):
            assert (got["head"], got["relation"], got["tail"]) == (
                expected["head"],
                expected["relation"],
                expected["tail"],
            )
            assert got["probability"] == pytest.approx(expected["probability"], rel=1e-5)


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


def test_scores_of_triples(client: httpx.Client, geo_run: sp.Run) -> None:
    triples = [("Germany", "borders", "Spain"), ("Germany", "borders", "France"), ("Spain", "speaks", "Catalan")]
    body = [dict(zip(("head", "relation", "tail"), triple, strict=True)) for triple in triples]
    reply = ask(client, "score", triples=body, prior=0.2)["triples"]
    for triple, got in zip(triples, reply, strict=True):
        expected = geo_run.predict(*triple, prior=0.2).iloc[0]
        assert (got["head"], got["relation"], got["tail"]) == triple
        assert got["probability"] == pytest.approx(expected["probability"], rel=1e-5)
        assert got["known"] == bool(expected["known"])


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


def test_relations_and_score_statistics(client: httpx.Client, geo_run: sp.Run) -> None:
    relations = look(client, "relations")["relations"]
    assert [one["relation"] for one in relations] == list(geo_run.graph.relations)
    assert relations[0] == {"relation": "borders", "facts": 648, "heads": 159, "tails": 161}
    stats = look(client, "stats", threshold=0.4, prior=0.1, samples=2000)
    expected = score_statistics(geo_run.predictor, threshold=0.4, prior=0.1, samples=2000)
    assert [row["relation"] for row in stats["rows"]] == expected["relation"].tolist()
    for key in ("mean", "std", "sampled", "low", "high"):
        np.testing.assert_allclose([row[key] for row in stats["rows"]], expected[key], rtol=1e-6)
    assert look(client, "stats", threshold=0.4, prior=0.1, samples=2000) == stats


def test_discovery(client: httpx.Client, geo_run: sp.Run) -> None:
    names = ["borders", "speaks"]
    reply = ask(client, "discover", relations=names, min_probability=0.3, prior=0.1, top=15)["triples"]
    ids = [geo_run.graph.relations.id(name) for name in names]
    found = list(discover(geo_run.predictor, min_probability=0.3, prior=0.1, relations=ids))
    best = np.sort(np.concatenate([part.logits for part in found]))[::-1][:15]
    np.testing.assert_allclose([one["log_odds"] for one in reply], best, rtol=1e-3, atol=1e-3)
    assert not any(one["known"] for one in reply)
    assert ask(client, "discover", relations=["borders"], min_probability=0.999999)["triples"] == []


def test_about_health_ready_and_metrics(client: httpx.Client, geo_run: sp.Run) -> None:
    about = look(client, "run")
    assert about["graph"] == geo_run.graph.counts()
    assert (about["model"], about["objective"], about["calibration"]) == ("complex", "second-moment", "posterior")
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
