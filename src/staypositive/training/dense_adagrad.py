"""AdaGrad on a whole table, in one pass on the GPU: what plain torch does in seven."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit
def _step(weights, squares, gradient, count, rate, epsilon, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = place < count
    g = tl.load(gradient + place, mask=here, other=0.0)
    s = tl.load(squares + place, mask=here, other=1.0) + g * g
    w = tl.load(weights + place, mask=here, other=0.0) - rate * g / (tl.sqrt(s) + epsilon)
    tl.store(squares + place, s, mask=here)
    tl.store(weights + place, w, mask=here)


def step_whole_table(weights: Tensor, squares: Tensor, gradient: Tensor, rate: float, epsilon: float) -> None:
    """Update weights and squares in place; all have one shape, in 32 bits."""
    count = weights.numel()
    _step[(triton.cdiv(count, BLOCK),)](weights, squares, gradient.contiguous(), count, rate, epsilon, BLOCK)
