"""How stated probabilities of unknown triples are compared with hidden facts, against plain loops."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import staypositive as sp
from conftest import Labels
from staypositive.evaluation import discovery_metrics
from staypositive.evaluation.discovery import EDGES, ENOUGH

HIDDEN = 40


def drawn() -> dict[str, Any]:
    """Unknown triples, some of which stand for many; all hidden facts, of which most are among them."""
    draw = np.random.default_rng(0)
    n = 700
    log_odds, relations = draw.normal(-3, 3, n), draw.integers(0, 4, n)
    hidden = np.sort(draw.choice(n, HIDDEN, replace=False, p=np.exp(log_odds / 3) / np.exp(log_odds / 3).sum()))
    weights = np.where(log_odds > -2, 1.0, draw.uniform(1, 20, n))
    relations[hidden[:3]] = 4  # too few to compare
    return {
        "log_odds": log_odds, "weights": weights, "relations": relations,
        "is_hidden": np.isin(np.arange(n), hidden),
        "hidden_log_odds": log_odds[hidden], "hidden_relations": relations[hidden],
    }  # fmt: skip


def chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def test_metrics_are_what_loops_count() -> None:
    given = drawn()
    found = discovery_metrics(**given)
    rows = list(zip(given["log_odds"], given["weights"], given["relations"], given["is_hidden"], strict=True))
    assert found["hidden"] == HIDDEN
    assert found["sum"] == pytest.approx(sum(weight * chance(odds) for odds, weight, _, _ in rows))
    loss = -sum(weight * math.log(1 - chance(odds)) for odds, weight, _, _ in rows)
    for odds in given["hidden_log_odds"]:  # a fact is one of the triples: ln p in place of ln (1 − p)
        loss += math.log(1 - chance(odds)) - math.log(chance(odds))
    assert found["log_loss"] == pytest.approx(loss / HIDDEN)

    assert [top["triples"] for top in found["tops"]] == [100, 1000, HIDDEN]
    for top in found["tops"]:
        total = stated = true = 0.0
        for odds, weight, _, hidden in sorted(rows, reverse=True):
            if total >= top["triples"]:
                break
            total, stated, true = total + weight, stated + weight * chance(odds), true + weight * hidden
        assert top["stated"] == pytest.approx(stated / total)
        assert top["true"] == pytest.approx(true / total)

    bins = {own["from"]: own for own in found["bins"]}
    for low, high in pairwise(EDGES):
        inside = [(weight, chance(odds)) for odds, weight, _, _ in rows if low <= chance(odds) < high]
        if not inside:
            assert low not in bins
            continue
        own, count = bins[low], sum(weight for weight, _ in inside)
        true = sum(low <= chance(odds) < high for odds in given["hidden_log_odds"])
        assert own["triples"] == pytest.approx(count)
        assert own["stated"] == pytest.approx(sum(weight * p for weight, p in inside) / count)
        assert own["true"] == pytest.approx(min(true / count, 1))
        assert 0 <= own["low"] <= max(own["true"], 1e-9) + 0.3
        assert own["low"] < own["high"] <= 1

    ratios = []
    for relation in range(5):
        hidden = sum(own == relation for own in given["hidden_relations"])
        if hidden >= ENOUGH:
            ratios.append(sum(w * chance(odds) for odds, w, own, _ in rows if own == relation) / hidden)
    by_relation = found["relations"]
    assert by_relation["relations"] == len(ratios) < 5
    assert by_relation["median"] == pytest.approx(np.median(ratios))
    assert by_relation["low"] == pytest.approx(np.quantile(ratios, 0.1))
    assert by_relation["high"] == pytest.approx(np.quantile(ratios, 0.9))


def test_relations_with_few_hidden_facts_are_not_compared() -> None:
    given = drawn()
    few = given | {"hidden_relations": np.arange(HIDDEN)}
    assert discovery_metrics(**few)["relations"] == {}


def test_right_probabilities_are_seen_to_be_right() -> None:
    draw = np.random.default_rng(1)
    log_odds = draw.normal(-2, 2, 20_000)
    true = draw.random(20_000) < 1 / (1 + np.exp(-log_odds))
    relations = np.zeros(20_000, dtype=np.int64)
    found = discovery_metrics(log_odds, np.ones(20_000), relations, true, log_odds[true], relations[true])
    assert found["sum"] == pytest.approx(true.sum(), rel=0.05)
    assert found["relations"]["median"] == pytest.approx(1, abs=0.05)
    for top in found["tops"][1:]:
        assert top["stated"] == pytest.approx(top["true"], abs=0.05)
    covered = [own["low"] <= own["stated"] <= own["high"] for own in found["bins"]]
    assert np.mean(covered) > 0.8
    for wrong in (log_odds + 1, log_odds - 1, log_odds * 2):
        other = discovery_metrics(wrong, np.ones(20_000), relations, true, wrong[true], relations[true])
        assert other["log_loss"] > found["log_loss"]


def test_evaluating_test_hides_its_facts(
    incomplete_run: sp.Run, incomplete: tuple[sp.KnowledgeGraph, list[Labels]]
) -> None:
    graph = incomplete[0]
    run = sp.Run(graph, incomplete_run.model, incomplete_run.settings, incomplete_run.history, 1, {})
    assert "discovery" not in run.evaluate("test", ranking=True)  # no probabilities were fitted
    run.calibrate()
    report = run.evaluate("test", ranking=False)["discovery"]
    hidden, others = len(graph.test.facts), len(graph.facts("train", "valid"))
    assert report["hidden"] == hidden == 60
    assert report["completeness"] == pytest.approx(others / (others + hidden))
    assert report["held_out"] == len(graph.valid.facts)
    assert report["sum"] == pytest.approx(hidden, rel=0.2)
    # Besides the hidden facts there are as many that no split has: stated to be about as likely, and counted false.
    top = report["tops"][-1]
    assert 0.2 < top["true"] <= top["stated"] + 0.2
    assert run.metric("discovery_sum") == report["sum"]
    assert "discovery" not in run.evaluate("test", discovery=False)
    assert "discovery" in run.metrics["test"]
    assert "discovery" not in run.evaluate("valid")
    run.calibrate(completeness=0.9)
    assert "discovery" not in run.metrics["test"]  # measured with what was replaced


def test_a_split_that_others_have_hides_nothing(incomplete_run: sp.Run) -> None:
    graph = incomplete_run.graph
    same = dataclasses.replace(graph, test=graph.valid)
    run = sp.Run(same, incomplete_run.model, incomplete_run.settings, incomplete_run.history, 1, {})
    run.calibrate()
    assert set(run.evaluate("test")) == {"ranking"}
