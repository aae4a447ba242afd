"""Two kernels for models on a GPU, in Triton: the triple product of blocks, and a dropout mask by hash.

A product of the block family is trilinear: its gradients are products of the same terms with the places exchanged.
One kernel thus serves tail, head and relation queries, forwards and backwards, each in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from staypositive.models.block import GPU_BLOCKS

COLUMNS = 256


@triton.jit
def mix(x):
    """`staypositive.models.hashing.mix`, on unsigned 32-bit numbers."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


def encode_terms(terms: Iterable[tuple[int, int, int, bool]]) -> int:
    """Return terms of three block numbers and a sign as one number, eight bits each: two per block, one negative."""
    code = 0
    for place, (x, y, z, negative) in enumerate(terms):
        if max(x, y, z) >= GPU_BLOCKS:
            raise ValueError(f"the GPU kernels address {GPU_BLOCKS} blocks, from 0, got {x}, {y} and {z}")
        code |= (x | y << 2 | z << 4 | negative << 6) << (8 * place)
    return code


@triton.jit
def _product(
    left, right, out, scale,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, OUT: tl.constexpr, CODE: tl.constexpr, TERMS: tl.constexpr,
    DIM: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = k < DIM
    for block in tl.static_range(OUT):
        total = tl.zeros([COLUMNS], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            if ((CODE >> (8 * m + 4)) & 3) == block:
                x = tl.load(left + (row * LEFT + ((CODE >> (8 * m)) & 3)) * DIM + k, mask=here, other=0.0)
                y = tl.load(right + (row * RIGHT + ((CODE >> (8 * m + 2)) & 3)) * DIM + k, mask=here, other=0.0)
                total += (1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)) * x * y
        tl.store(out + (row * OUT + block) * DIM + k, total * scale, mask=here)


class BlockProduct(torch.autograd.Function):
    """Σ c · left · right by block of the missing argument, for rows in parallel, shape (n, blocks × dim).

    `terms` are (left block, right block, missing block, negative), `blocks` how many each has.
    """

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, terms: tuple[Any, ...], blocks: tuple[int, int, int], scale: float
    ) -> Tensor:
        """Multiply."""
        ctx.save_for_backward(left, right)
        ctx.plan = terms, blocks, scale
        return product(left, right, terms, blocks, scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Exchange the gradient with the argument that it is taken for."""
        left, right = ctx.saved_tensors
        terms, (a, b, c), scale = ctx.plan
        to_left = to_right = None
        if ctx.needs_input_grad[0]:
            swapped = tuple((missing, y, x, negative) for x, y, missing, negative in terms)
            to_left = product(gradients[0], right, swapped, (c, b, a), scale)
        if ctx.needs_input_grad[1]:
            swapped = tuple((x, missing, y, negative) for x, y, missing, negative in terms)
            to_right = product(left, gradients[0], swapped, (a, c, b), scale)
        return to_left, to_right, None, None, None


def product(
    left: Tensor, right: Tensor, terms: tuple[Any, ...], blocks: tuple[int, int, int], scale: float
) -> Tensor:
    """Run the kernel."""
    left, right = left.contiguous(), right.contiguous()
    n, dim = len(left), left.shape[1] // blocks[0]
    out = left.new_empty(n, blocks[2] * dim)
    columns = min(COLUMNS, triton.next_power_of_2(dim))
    grid = (n, triton.cdiv(dim, columns))
    _product[grid](left, right, out, scale, *blocks, encode_terms(terms), len(terms), dim, columns)
    return out


@triton.jit
def _keep(key, out, threshold, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    k = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row_key = mix((tl.load(key) + row).to(tl.uint32))
    bits = mix(row_key + k.to(tl.uint32) * 0x9E3779B9)
    tl.store(out + row.to(tl.int64) * WIDTH + k, bits >= threshold.to(tl.uint32), mask=k < WIDTH)


def keep_mask_on_gpu(key: Tensor, rows: int, columns: int, threshold: int) -> Tensor:
    """Return `staypositive.models.hashing.keep_mask`'s mask, in one pass."""
    out = torch.empty(rows, columns, dtype=torch.bool, device=key.device)
    at_once = min(1024, triton.next_power_of_2(columns))
    _keep[(rows, triton.cdiv(columns, at_once))](key, out, threshold, columns, at_once)
    return out
