"""Steps by two and four processes against the reference engine's in one, in 64 bits: losses, weights, ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from launching import TESTS, torchrun
from sharing import CASES, EPOCHS, case
from staypositive.evaluation import rank_facts
from staypositive.inference import Predictor, discover
from staypositive.inference.ordering import grid
from staypositive.models import Scorer
from staypositive.run import new_model, training_task
from staypositive.training import Engine, build_engine
from stepping import epoch


@pytest.fixture(scope="module", params=[2, 4])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """What processes found together, all cases after one start."""
    found = tmp_path_factory.mktemp("sharded") / "found.safetensors"
    done = torchrun(request.param, TESTS / "sharing.py", found)
    assert done.returncode == 0, done.stderr
    return load_file(found)


def alone(name: str) -> tuple[Engine, Tensor]:
    """The same training by the reference engine."""
    graph, settings = case(name)
    model = new_model(graph, settings).double()
    engine = build_engine("autograd", training_task(graph, settings, model))
    return engine, torch.stack([torch.stack(list(epoch(engine).values())) for _ in range(EPOCHS)])


@pytest.mark.parametrize("name", CASES)
def test_processes_take_the_steps_of_one(shared: dict[str, Tensor], name: str) -> None:
    engine, losses = alone(name)
    torch.testing.assert_close(shared[f"{name}/losses"], losses, rtol=1e-9, atol=1e-9)
    for table, weights in engine.model.named_parameters():
        torch.testing.assert_close(shared[f"{name}/{table}"], weights.data, rtol=1e-8, atol=1e-8)
    assert float(shared[f"{name}/mean_score"]) == pytest.approx(float(engine.model.mean_score().detach()), abs=1e-9)


def near_ties(scorer: Scorer, facts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many other answers score as the true one does but for rounding, tail queries first."""
    heads, relations, tails = torch.as_tensor(facts).unbind(1)
    asked = ((scorer.tails(heads, relations), tails), (scorer.heads(relations, tails), heads))
    places = [grid(scores.numpy()) for scores, _ in asked]
    return np.concatenate(
        [
            (own == own[range(len(facts)), true][:, None]).sum(1) - 1
            for own, (_, true) in zip(places, asked, strict=True)
        ]
    )


@pytest.mark.parametrize("name", ["batch-scope", "moments", "moments-of-queries"])
def test_processes_rank_discover_and_score_as_one(shared: dict[str, Tensor], name: str) -> None:
    model = alone(name)[0].model
    model.load_state_dict({table: shared[f"{name}/{table}"] for table in model.state_dict()})
    graph, _ = case(name)
    scorer = Scorer(model)
    ranks = rank_facts(scorer.asked(), graph.test.facts, graph.facts())
    near = near_ties(scorer.asked(), graph.test.facts)
    for found, own in zip(
        shared[f"{name}/ranks"].numpy(),
        (ranks.better, ranks.ties, ranks.candidates, ranks.raw_better, ranks.raw_ties),
        strict=True,
    ):
        assert (abs(found - own) <= near).all()  # which of two equal scores is larger, rounding decides
    new = [found.triples for found in discover(Predictor(graph, scorer), most=20)]
    assert sum(map(len, new)) > 20
    assert np.array_equal(shared[f"{name}/new"].numpy(), np.concatenate(new))
    few = torch.as_tensor(graph.test.triples[:3])  # of four processes, one is left without
    torch.testing.assert_close(shared[f"{name}/scores"], scorer.triples(*few.T), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_regulariser_sends_a_vector_or_two_matrices_a_step(shared: dict[str, Tensor], name: str) -> None:
    graph, settings = case(name)
    model = new_model(graph, settings).double()
    width, objective = model.entity_rows().shape[1], settings.objective
    steps = EPOCHS * training_task(graph, settings, model).batches
    numbers = {"stay-positive": width, "second-moment": width**2, "negative-sampling": 0}[objective.name]
    assert int(shared[f"{name}/sent_sums"]) == steps * numbers * 8
    if objective.touches_all_rows:
        replicated = sum(table.numel() for table in model.parameters()) - model.entities.numel()
        terms = shared[f"{name}/losses"].shape[1]
        assert int(shared[f"{name}/sent_gradients"]) == steps * (replicated + terms + numbers) * 8


def test_drawn_negatives_are_fetched(shared: dict[str, Tensor]) -> None:
    facts, drawn = int(shared["rows/facts"]), int(shared["rows/drawn"])
    assert drawn > 3 * facts > 0
