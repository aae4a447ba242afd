"""The fused GPU engine on a real GPU (`make test-gpu`): every block model, widths that are whole vectors and not."""

from __future__ import annotations

import pytest
import torch

from staypositive.models import TABLES, build_model
from staypositive.objectives import StayPositive
from staypositive.training import AdaGrad, ReferenceEngine
from staypositive.training.fused_gpu import FusedGpuEngine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dim", [6, 21, 50, 200])
@pytest.mark.parametrize("scope", ["batch", "all"])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_gpu_takes_the_reference_steps(name: str, scope: str, dim: int) -> None:
    draw = torch.Generator().manual_seed(0)
    facts = torch.stack([torch.randint(n, (5000,), generator=draw) for n in (900, 7, 900)], dim=1).cuda()
    models = []
    for kind in (ReferenceEngine, FusedGpuEngine):
        model = build_model(name, 900, 7, dim, dropout=0.4, prior_score=-0.5)
        model.initialise(torch.Generator().manual_seed(0))
        model = model.cuda()
        tables = {"entities": model.entities.data, "relations": model.relations.data}
        engine = kind(model, StayPositive(scope=scope), AdaGrad(tables, 0.1), facts, 700, 3)
        terms = [engine.run_epoch() for _ in range(2)]
        models.append((model, terms))
    (plain, expected), (fused, found) = models
    torch.testing.assert_close(fused.entities, plain.entities, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(fused.relations, plain.relations, atol=1e-4, rtol=1e-4)
    for ours, theirs in zip(found, expected, strict=True):
        assert float(ours["facts"]) == pytest.approx(float(theirs["facts"]), rel=1e-4)
