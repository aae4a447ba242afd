"""The fused GPU engine on a real GPU (`make test-gpu`): every block model, widths that are whole vectors and not."""

from __future__ import annotations

import pytest
import torch

from staypositive.models import TABLES, build_model
from staypositive.objectives import NegativeSampling, Objective, OneVsAll, SecondMoment, StayPositive
from staypositive.training import AdaGrad, Engine, TrainingTask, build_engine
from staypositive.training.captured import CapturedEngine
from staypositive.training.fused_gpu import FusedGpuEngine
from stepping import epoch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

OBJECTIVES = {
    "batch": StayPositive(penalty_weight=0.3),
    "all": StayPositive(penalty_weight=1e-9, scope="all", power=2, weighting="paper"),
    "negatives": NegativeSampling(negatives=3),
    "negatives-l2": NegativeSampling(l2=0.1),
}


def draw_facts() -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(n, (5000,), generator=draw) for n in (900, 7, 900)], dim=1).cuda()


def member(name: str, objective: Objective, dim: int, number: int = 0, **extra: object) -> TrainingTask:
    dtype, rowwise = extra.get("dtype", torch.float32), bool(extra.get("rowwise"))
    model = build_model(name, 900, 7, dim, bound=objective.defaults.bound, dropout=0.4, prior_score=-0.5 * number)
    model.initialise(torch.Generator().manual_seed(number))
    model = model.cuda().to(dtype)
    tables = {"entities": model.entities.data, "relations": model.relations.data}
    adagrad = AdaGrad(tables, 0.1, rowwise=rowwise)
    return TrainingTask(model, objective, adagrad, draw_facts(), 700, 3 + number // 2)


def build(kind: str, made: TrainingTask, products: str = "highest") -> Engine:
    engine = build_engine(kind, made)
    if isinstance(engine, CapturedEngine):
        engine.products = products
    return engine


def compare(fused: Engine, plain: Engine) -> None:
    for _ in range(2):
        found, expected = epoch(fused), epoch(plain)
    torch.testing.assert_close(fused.model.entities, plain.model.entities, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(fused.model.relations, plain.model.relations, atol=1e-4, rtol=1e-4)
    for term, value in expected.items():
        assert float(found[term]) == pytest.approx(float(value), rel=1e-3)


@pytest.mark.parametrize("dim", [21, 200])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", sorted(TABLES))
def test_gpu_takes_the_reference_steps(name: str, objective: str, dim: int) -> None:
    wanted = OBJECTIVES[objective]
    compare(build("fused-gpu", member(name, wanted, dim)), build("autograd", member(name, wanted, dim)))


@pytest.mark.parametrize("dim", [6, 50])
def test_gpu_rowwise(dim: int) -> None:
    fused, plain = (member("simple", OBJECTIVES["batch"], dim, rowwise=True) for _ in range(2))
    compare(build("fused-gpu", fused), build("autograd", plain))


@pytest.mark.parametrize("dim", [6, 200])
def test_gpu_with_rows_in_16_bits(dim: int) -> None:
    made = [member("complex", OBJECTIVES["batch"], dim, dtype=torch.bfloat16) for _ in range(2)]
    fused, plain = build("fused-gpu", made[0]), build("autograd", made[1])
    fused.run_epoch(), plain.run_epoch()
    ours, theirs = fused.model.entities.float(), plain.model.entities.float()
    assert (ours == theirs).float().mean() > 0.9
    torch.testing.assert_close(ours, theirs, atol=2e-2, rtol=2**-5)


@pytest.mark.parametrize("objective", ["batch", "negatives-l2"])
def test_gpu_packs_runs(objective: str) -> None:
    wanted = OBJECTIVES[objective]
    pack = FusedGpuEngine([member("simple", wanted, 50, number) for number in range(5)])
    pack.run_epoch(), pack.run_epoch()
    for number, packed in enumerate(pack.models):
        alone = build("autograd", member("simple", wanted, 50, number))
        alone.run_epoch(), alone.run_epoch()
        torch.testing.assert_close(packed.entities, alone.model.entities, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("objective", [OneVsAll(l2=0.1), StayPositive(scope="all")], ids=lambda o: o.name)
@pytest.mark.parametrize("name", ["complex", "rescal"])
def test_gpu_replays_the_reference_step(name: str, objective: Objective) -> None:
    compare(*(build(kind, member(name, objective, 16)) for kind in ("captured", "autograd")))


@pytest.mark.parametrize("objective", ["batch", "negatives"])
@pytest.mark.parametrize("name", ["hole", "rescal", "complex"])
def test_gpu_replays_steps_of_few_rows(name: str, objective: str) -> None:
    compare(*(build(kind, member(name, OBJECTIVES[objective], 16)) for kind in ("captured-whole", "autograd")))


@pytest.mark.parametrize("weighting", ["triple", "query", "all"])
@pytest.mark.parametrize("dim", [16, 21])
@pytest.mark.parametrize("name", ["complex", "rescal"])
def test_gpu_takes_second_moment_steps(name: str, dim: int, weighting: str) -> None:
    objective = SecondMoment(weighting=weighting, reciprocal=False)
    compare(*(build(kind, member(name, objective, dim)) for kind in ("captured-gram", "autograd")))


@pytest.mark.parametrize("dim", [6, 21, 200])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_gpu_forms_the_queries_of_the_cpu(name: str, dim: int) -> None:
    model = build_model(name, 9, 3, dim)
    model.initialise(torch.Generator().manual_seed(0))
    heads, relations = model.entity_rows(), model.relation_rows()[torch.arange(9) % 3]
    found = model.tail_query(heads.cuda(), relations.cuda()).cpu()
    torch.testing.assert_close(found, model.tail_query(heads, relations))


def test_gpu_products_in_19_bits_are_close() -> None:
    objective = SecondMoment(reciprocal=False)
    coarse = build("captured-gram", member("complex", objective, 16), "high")
    plain = build("autograd", member("complex", objective, 16))
    for _ in range(2):
        found, expected = epoch(coarse), epoch(plain)
    for term, value in expected.items():
        assert float(found[term]) == pytest.approx(float(value), rel=2e-2)


@pytest.mark.parametrize(
    ("kind", "objective"),
    [
        ("fused-gpu", OBJECTIVES["batch"]),
        ("fused-gpu", OBJECTIVES["negatives-l2"]),
        ("captured-whole", OBJECTIVES["batch"]),
        ("captured", StayPositive(scope="all")),
        ("captured-gram", SecondMoment(reciprocal=False)),
    ],
    ids=["fused", "fused-l2", "batch", "all", "moments"],
)
def test_gpu_goes_on_from_a_state(kind: str, objective: Objective) -> None:
    """To rounding: the order of the GPU's own sums is not ours to say."""
    through, first, second = (build(kind, member("complex", objective, 16)) for _ in range(3))
    for _ in range(2):
        through.run_epoch(), first.run_epoch()
    second.restore({name: value.clone() for name, value in first.state().items()})
    compare(second, through)
