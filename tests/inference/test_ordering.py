"""One order for all that is shown, whatever the processor, the threads, the pieces or the number asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logit as logit_of

import staypositive as sp
from conftest import planted_graph, quick_fit
from staypositive.inference import Explainer, Predictor, discover
from staypositive.inference.ordering import TOLERANCE, best_first, best_of_each, grid, reaches
from staypositive.models import Scorer
from staypositive.service.query_service import QueryService, Question
from staypositive.service.schemas import Options


def test_probability_goes_before_score_and_score_before_ids() -> None:
    log_odds, scores = np.array([0.0, 3.0, 0.0, 0.0]), np.array([1.0, -9.0, 2.0, 1.0])
    assert best_first(log_odds, scores, np.array([9, 8, 7, 6])).tolist() == [1, 2, 3, 0]
    triples = np.array([(1, 0, 2), (0, 1, 0), (0, 0, 9), (1, 0, 1)])
    assert best_first(np.zeros(4), np.zeros(4), triples).tolist() == [2, 1, 3, 0]
    assert best_first(np.zeros(4), np.zeros(4), triples, np.array([1, 1, 0, 0])).tolist() == [2, 3, 1, 0]
    assert best_first(np.empty(0), np.empty(0), np.empty((0, 3), dtype=np.int64)).tolist() == []


def test_rounding_decides_nothing() -> None:
    draw = np.random.default_rng(0)
    values = np.repeat(draw.normal(size=200) * 10.0 ** draw.integers(-3, 6, 200), 5)
    ids = draw.permutation(1000)
    order = best_first(values, values, ids)
    for _ in range(20):
        noisy = values * (1 + draw.uniform(-1, 1, 1000) * 1e-15)
        np.testing.assert_array_equal(best_first(noisy, noisy, ids), order)
    assert (np.diff(values[order]) <= 0).all()
    assert grid(np.array([1.0]))[0] < grid(np.array([1.0 + 10 * TOLERANCE]))[0]
    assert reaches(np.array([0.3 - 1e-15, 0.3 - 1e-5]), 0.3).tolist() == [True, False]


@pytest.mark.parametrize("top", [1, 3, 7, 50])
def test_the_best_of_each_row_are_the_first_of_all(top: int) -> None:
    draw = np.random.default_rng(1)
    log_odds = torch.from_numpy(draw.integers(0, 4, (6, 40)).astype(np.float64))
    scores = torch.from_numpy(draw.integers(0, 3, (6, 40)).astype(np.float64))
    log_odds[0, 5:] = -torch.inf
    log_odds[1] = -torch.inf
    noisy = log_odds * (1 + torch.rand(6, 40, dtype=torch.float64) * 1e-15)
    rows, columns = best_of_each(noisy, scores, top)
    for row in range(6):
        order = best_first(log_odds[row].numpy(), scores[row].numpy(), np.arange(40))
        expected = [place for place in order.tolist() if torch.isfinite(log_odds[row, place])][:top]
        assert columns[rows == row].tolist() == expected


def tied_run() -> sp.Run:
    """A model whose answers tie in pairs: their summands are the same, in another order."""
    graph = planted_graph()
    run = sp.fit(graph, model="distmult", objective="second-moment", dim=24, epochs=3, batch_size=64)
    draw = torch.Generator().manual_seed(0)
    n = len(graph.entities)
    with torch.no_grad():
        run.model.relations.fill_(0.37)
        for first in range(0, n - 1, 2):
            row = torch.randn(24, generator=draw) * 10 ** torch.randint(-2, 2, (24,), generator=draw)
            run.model.entities[first] = row
            run.model.entities[first + 1] = row.flip(0)
        run.model.entities[0] = 0.7  # asked about: alike in every coordinate
    return run


def test_answers_that_tie_come_by_their_ids() -> None:
    run = tied_run()
    predictor = run.predictor
    n = len(run.graph.entities)
    label = run.graph.entities[0]
    for answers in (
        predictor.predict(head=label, relation="ally", top=n)["tail"],
        predictor.predict(tail=label, relation="ally", top=n)["head"],
    ):
        ids = [run.graph.entities.id(answer) for answer in answers]
        place = {own: rank for rank, own in enumerate(ids)}
        pairs = [(first, first + 1) for first in range(2, n - 1, 2)]
        assert all(place[second] == place[first] + 1 for first, second in pairs)
    rounded = Scorer(run.model).tails(torch.tensor([0]), torch.tensor([0]))[0]
    assert any(rounded[first] != rounded[second] for first, second in pairs)  # so that the test can fail


@pytest.fixture(scope="module")
def run() -> sp.Run:
    return quick_fit(planted_graph())


@pytest.fixture(scope="module", params=["probabilities", "scores"])
def either(run: sp.Run, request: pytest.FixtureRequest) -> sp.Run:
    """A run with probabilities, and the same one without."""
    found = sp.Run(run.graph, run.model, run.settings, run.history, run.best_epoch, run.provenance)
    if request.param == "probabilities":
        found.calibrate()
    return found


QUESTIONS = [{"head": "p0", "relation": "ally"}, {"relation": "ally", "tail": "p3"}, {"head": "p0", "tail": "p3"}]


def log_odds(run: sp.Run, answers: pd.DataFrame, **question: str) -> np.ndarray:
    """Return what answers to a question are ordered by: log-odds, known facts' too; without these, scores."""
    if run.posterior is None:
        return np.asarray(answers["score"])
    every = answers.assign(**question)
    return logit_of(run.predict_proba(every[["head", "relation", "tail"]]))


@pytest.mark.parametrize("question", QUESTIONS, ids=["tail", "head", "relation"])
def test_fewer_answers_are_the_first_of_more(either: sp.Run, question: dict[str, str]) -> None:
    whole = either.predict(**question, top=10_000)
    assert (np.diff(log_odds(either, whole, **question)) <= 1e-6).all()
    side = whole.columns[0]
    for top in (1, 5, 20):
        assert either.predict(**question, top=top)[side].tolist() == whole[side].tolist()[:top]
    if either.posterior is not None:
        shifted = either.predict(**question, top=20, completeness=0.3)
        assert shifted[side].tolist() == whole[side].tolist()[:20]


def test_many_questions_at_once_are_answered_as_one_by_one(either: sp.Run) -> None:
    asked = [sp.Query(f"p{i}", "ally", None) for i in range(6)] + [sp.Query(None, "rival", f"p{i}") for i in range(6)]
    together = either.answer(asked, top=7)
    small = either.answer(asked, top=7, memory=1)
    columns = ["query", "head", "relation", "tail", "rank", "known"]
    assert together[columns].equals(small[columns])
    for number, query in enumerate(asked):
        single = either.predict(*query, top=7)
        assert together[together["query"] == number][query.missing].tolist() == single[query.missing].tolist()
    service = QueryService(either)
    for job, answers in zip(
        [Question(query, Options(top=7)) for query in asked],
        service.answer_all([Question(q, Options(top=7)) for q in asked]),
        strict=True,
    ):
        assert not isinstance(answers, Exception)
        assert [record[job.query.missing] for record in answers] == either.predict(*job.query, top=7)[
            job.query.missing
        ].tolist()


def test_fewer_discoveries_are_the_first_of_more(either: sp.Run) -> None:
    options = {} if either.posterior is None else {"min_probability": 1e-5}
    whole = list(discover(either.predictor, most=500, **options))
    assert sum(len(found.triples) for found in whole) > 50
    for found, expected in zip(discover(either.predictor, most=5, **options), whole, strict=True):
        np.testing.assert_array_equal(found.triples, expected.triples[:5])


@pytest.mark.parametrize("piece", [1, 50, 10**6])
def test_discovered_ties_go_by_score_and_then_by_ids(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staypositive.inference.discovery.PIECE", piece)
    for found in discover(tied_run().predictor, most=100):
        assert len(found.triples) == 100
        keys = list(zip(-grid(found.scores), *found.triples.T, strict=True))
        assert keys == sorted(keys)


def test_likeness_and_support_go_by_the_same_order(run: sp.Run) -> None:
    alike = run.similar("p0", top=10_000)
    assert run.similar("p0", top=4)["entity"].tolist() == alike["entity"].tolist()[:4]
    support = Explainer(run.predictor)
    triple = tuple(run.graph.test.facts[0].tolist())
    facts, values = support.of(triple, top=10_000)  # type: ignore[arg-type]
    keys = list(zip(-grid(values), *facts.T, strict=True))
    assert keys == sorted(keys)


def test_answer_sets_come_most_likely_first(either: sp.Run) -> None:
    table = either.prediction_set("p0", "ally", coverage=0.995)
    assert len(table) > 1
    assert ("probability" in table) == (either.posterior is not None)
    assert (np.diff(log_odds(either, table, head="p0", relation="ally")) <= 1e-6).all()
    every = either.predict("p0", "ally", top=10_000, exclude_known=True)["tail"].tolist()
    assert [label for label in every if label in set(table["tail"])] == table["tail"].tolist()


@pytest.mark.parametrize("name", ["tucker", "ntn", "transe", "hole", "rescal", "simple"])
def test_exact_scores_are_those_of_the_model_in_64_bits(name: str) -> None:
    model = sp.build_model(name, 9, 2, 4)
    model.initialise(torch.Generator().manual_seed(0))
    ids = torch.tensor([(0, 0, 1), (3, 1, 8), (5, 0, 5)]).T
    exact = Scorer(model, exact=True).triples(*ids)
    assert exact.dtype == torch.float64
    assert {table.dtype for table in model.parameters()} == {torch.float32}
    torch.testing.assert_close(exact, model.double().score(*ids), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reciprocal", [False, True])
def test_pairs_are_scored_as_each_side_asks(reciprocal: bool) -> None:
    model = sp.build_model("complex", 9, 2, 4, reciprocal=reciprocal)
    model.initialise(torch.Generator().manual_seed(0))
    heads, tails = torch.tensor([1, 4]), torch.tensor([0, 2, 3, 8, 5])
    for scorer in (Scorer(model, exact=True), Scorer(model, exact=True, asked=True)):
        for few, many in ((heads, tails), (tails, heads), (None, tails), (heads, None)):
            ids = [torch.arange(9) if side is None else side for side in (few, many)]
            to_tails = scorer.tails(ids[0], torch.ones_like(ids[0]))[:, ids[1]]
            to_heads = scorer.heads(torch.ones_like(ids[1]), ids[1])[:, ids[0]].T
            torch.testing.assert_close(scorer.pairs(few, 1, many), to_tails, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(scorer.swapped().pairs(few, 1, many), to_heads, rtol=1e-12, atol=1e-12)


def test_a_prediction_without_need_of_it_forms_no_background(run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from staypositive.models import RowMoments

    def refuse(rows: torch.Tensor) -> RowMoments:
        raise AssertionError("the moments of all rows were formed")

    fresh = sp.Run(run.graph, run.model, run.settings, run.history, run.best_epoch, run.provenance)
    monkeypatch.setattr(RowMoments, "of", refuse)
    assert len(fresh.predict("p0", "ally")) == 10


def test_scores_are_the_same_for_any_number_of_threads(run: sp.Run) -> None:
    predictor = Predictor(run.graph, Scorer(run.model))
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(predictor.predict("p0", "ally", top=10_000)["tail"].tolist())
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]
