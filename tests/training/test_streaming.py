"""Facts on disk: each drawn once an epoch, by a windowed shuffle, and the steps those of the engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from staypositive.errors import SettingError
from staypositive.graph.on_disk import StoredArray
from staypositive.models import BilinearModel, build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, SecondMoment, StayPositive
from staypositive.training import AdaGrad, Adam, FactStream, can_stream
from stepping import epoch, stepped

pytest.importorskip("numba", reason="the fused CPU engine needs numba")

RANDOM = np.random.default_rng(0)
FACTS = np.column_stack([RANDOM.integers(n, size=1003) for n in (60, 5, 60)]).astype(np.int32)


@pytest.fixture
def stored(tmp_path: Path) -> StoredArray:
    np.save(tmp_path / "facts.npy", FACTS)
    return StoredArray(tmp_path / "facts.npy")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(batches: list[torch.Tensor]) -> list[list[int]]:
    return torch.cat(batches).tolist()


@pytest.mark.parametrize(
    ("block", "window", "size"), [(10, 7, 64), (16, 1, 16), (400, 2, 1), (5000, 3, 90), (1, 50, 2000)]
)
def test_every_fact_once_an_epoch(stored: StoredArray, block: int, window: int, size: int) -> None:
    batches = [facts for facts, _ in FactStream(stored, block, window).batches(size, generator())]
    assert [len(batch) for batch in batches] == [size] * (1003 // size) + [1003 % size] * (1003 % size > 0)
    assert sorted(rows(batches)) == sorted(FACTS.tolist())
    assert all(batch.dtype == torch.int64 for batch in batches)


def test_order_is_the_seeds(stored: StoredArray) -> None:
    stream, one = FactStream(stored, 10, 7), generator()
    first, second = (rows([facts for facts, _ in stream.batches(64, one)]) for _ in range(2))
    assert first != second
    assert rows([facts for facts, _ in stream.batches(64, generator())]) == first
    assert rows([facts for facts, _ in stream.batches(64, generator(1))]) != first


def test_facts_move_within_their_window_alone(tmp_path: Path) -> None:
    numbers = np.arange(1000)
    np.save(tmp_path / "numbered.npy", np.column_stack([numbers, numbers, numbers]))
    stream = FactStream(StoredArray(tmp_path / "numbered.npy"), 20, 5)
    drawn = torch.cat([facts for facts, _ in stream.batches(7, generator())])[:, 0]
    for window in drawn.split(100):
        assert len(set((window // 20).tolist())) == 5  # whole blocks
        inside = (window // 20).tolist()
        assert inside != sorted(inside, key=inside.index)  # mixed with each other
    blocks = [window[0].item() // 20 for window in drawn.split(100)]
    assert blocks != sorted(blocks)


def test_a_window_of_the_whole_file_is_a_full_shuffle(tmp_path: Path) -> None:
    """Each of three facts comes first about as often."""
    np.save(tmp_path / "three.npy", np.arange(9).reshape(3, 3))
    stream, one = FactStream(StoredArray(tmp_path / "three.npy"), 1, 3), generator()
    firsts = [int(next(stream.batches(1, one))[0][0, 0]) // 3 for _ in range(600)]
    assert np.bincount(firsts, minlength=3).min() > 150


def make(name: str, objective: Objective, facts: object, model: str = "simple", adam: bool = False) -> tuple:
    built: BilinearModel = build_model(model, 60, 5, 8, bound=objective.defaults.bound)
    built.initialise(generator())
    tables = {key: table.data for key, table in built.named_parameters()}
    optimiser = Adam(tables, 0.1) if adam else AdaGrad(tables, 0.1)
    return stepped(name, built, objective, optimiser, facts, 64, 0), built


@pytest.mark.parametrize("objective", [StayPositive(penalty_weight=0.3), NegativeSampling(negatives=2)])
@pytest.mark.parametrize("name", ["reference", "fused"])
def test_steps_are_those_of_the_reference(stored: StoredArray, objective: Objective, name: str) -> None:
    stream = FactStream(stored, 10, 7)
    engine, model = make(name, objective, stream)
    assert engine.name == ("autograd" if name == "reference" else "fused-cpu")
    reference, twin = make("reference", objective, torch.from_numpy(FACTS).long())
    assert engine.batches == reference.batches
    twin.train()
    for _ in range(2):
        means = epoch(engine)
    totals = dict.fromkeys(means, 0.0)
    order = generator()
    for number in range(2):
        for batch, _ in stream.batches(64, order):
            for key, term in reference.step(batch).items():
                totals[key] += float(term) * (number == 1)
    for key, mean in means.items():
        assert float(mean) == pytest.approx(totals[key] / 1003, rel=1e-4)
    assert torch.allclose(model.entities, twin.entities, atol=1e-4)
    assert torch.allclose(model.relations, twin.relations, atol=1e-4)


def test_what_cannot_be_compiled_or_streamed(stored: StoredArray) -> None:
    assert make("auto", StayPositive(), FactStream(stored), model="rescal")[0].name == "autograd"
    with pytest.raises(SettingError, match="the fused engine cannot be used here: it has AdaGrad alone"):
        make("fused", StayPositive(), FactStream(stored), adam=True)
    assert can_stream(StayPositive())
    assert can_stream(OneVsAll(reciprocal=False))
    assert not can_stream(OneVsAll(reciprocal=True))
    assert not can_stream(SecondMoment())
    with pytest.raises(SettingError, match="the objective second-moment has to see all facts first"):
        make("auto", SecondMoment(), FactStream(stored))
    with pytest.raises(SettingError, match="block and window must be at least 1, got 0 and 3"):
        FactStream(stored, 0, 3)
