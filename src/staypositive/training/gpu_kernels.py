"""The fused step on the GPU, in Triton: three launches a step, and nothing that waits for the host.

1. `examples`: gathers the bounded rows of some facts, scores them, and adds their gradients to the rows' buffers by
   atomics. On the way it lists the distinct rows of the step (a stamp a row; the first to stamp wins) and sums them.
2. `penalty`: the sum of all scores from the summed rows (Theorem 1), its gradient, and whether the loss is finite.
3. `adagrad`: for each listed row the whole gradient, through the bound, into AdaGrad; clears the buffer; keeps the
   table of bounded rows true.

A model's table of terms travels as one whole number, eight bits a term (see `encode_terms`), which the compiler
unrolls: no two models share a compiled kernel, and none pays for another's terms.
"""

from __future__ import annotations

import triton
import triton.language as tl

from staypositive.models import Table

COPIES = 16
"""Sums of rows are collected in so many copies, so that atomics do not queue."""


def encode_terms(table: Table) -> int:
    """Return a table's terms as one number: two bits each for head, relation and tail block, one for the sign."""
    code = 0
    for place, (head, relation, tail, coefficient) in enumerate(table.terms):
        code |= (head | relation << 2 | tail << 4 | (coefficient < 0) << 6) << (8 * place)
    return code


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _tanh(x):
    small = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(x < 0, -size, size)


@triton.jit
def _columns(step, DIM: tl.constexpr, WIDE: tl.constexpr):
    """Column numbers. Where a row is no whole number of vectors, hide from the compiler that they are aligned.

    It would read and write several columns at once by the mask of the first, and so touch the block next door.
    """
    k = tl.arange(0, WIDE)
    if DIM % 4 != 0:
        k += tl.minimum(step, 0)  # zero, since steps count from 0; only we know
    return k


@triton.jit
def _kept(values, row_keys, columns, threshold, DROPOUT: tl.constexpr):
    if DROPOUT:
        bits = _mix(row_keys[:, None] + (columns.to(tl.uint32) * 0x9E3779B9)[None, :])
        values = tl.where(bits >= threshold, values, 0.0)
    return values


@triton.jit
def _claim(ids, valid, stamps, stamp, found, count):
    """List the rows that nobody has listed in this step; return which lanes listed one."""
    old = tl.atomic_xchg(stamps + ids, stamp, mask=valid)
    first = valid & (old != stamp)
    lanes = first.to(tl.int32)
    base = tl.atomic_add(count, tl.sum(lanes))
    tl.store(found + base + tl.cumsum(lanes) - lanes, ids.to(tl.int32), mask=first)
    return first


@triton.jit(do_not_specialize=["start", "n", "step", "mixed_seed", "threshold"])
def examples(
    triples, order, start, n, entities, relations, entity_gradients, relation_gradients,
    entity_stamps, relation_stamps, entity_found, relation_found, counts, sums, losses, steps_before, step,
    mixed_seed, threshold, prior_score, factor,
    CODE: tl.constexpr, TERMS: tl.constexpr, EB: tl.constexpr, RB: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr, ALL_ROWS: tl.constexpr, SUM_COPIES: tl.constexpr,
):  # fmt: skip
    """Scores, losses and gradients of ROWS facts."""
    pid = tl.program_id(0)
    i = pid * ROWS + tl.arange(0, ROWS)
    valid = i < n
    k = _columns(step, DIM, WIDE)
    tile = valid[:, None] & (k < DIM)[None, :]
    fact = tl.load(order + start + i, mask=valid, other=0)
    h = tl.load(triples + fact * 3, mask=valid, other=0).to(tl.int64)
    r = tl.load(triples + fact * 3 + 1, mask=valid, other=0).to(tl.int64)
    t = tl.load(triples + fact * 3 + 2, mask=valid, other=0).to(tl.int64)
    number = (tl.load(steps_before) + step).to(tl.int32)
    key = _mix(mixed_seed.to(tl.uint32) + number.to(tl.uint32))
    row_keys = _mix(key + i.to(tl.uint32))
    hp = (h * (EB * DIM))[:, None] + k[None, :]
    rp = (r * (RB * DIM))[:, None] + k[None, :]
    tp = (t * (EB * DIM))[:, None] + k[None, :]

    score = tl.zeros([ROWS], dtype=tl.float32)
    for m in tl.static_range(TERMS):
        x = tl.load(entities + hp + ((CODE >> (8 * m)) & 3) * DIM, mask=tile, other=0.0)
        y = tl.load(relations + rp + ((CODE >> (8 * m + 2)) & 3) * DIM, mask=tile, other=0.0)
        z = tl.load(entities + tp + ((CODE >> (8 * m + 4)) & 3) * DIM, mask=tile, other=0.0)
        product = _kept(x * y * z, row_keys, m * DIM + k, threshold, DROPOUT)
        sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
        score += sign * tl.sum(product, axis=1)
    logit = score * factor + prior_score
    small = tl.exp(-tl.abs(logit))
    loss = tl.log(1.0 + small) + tl.maximum(-logit, 0.0)
    tl.atomic_add(losses + 2 * step, tl.sum(tl.where(valid, loss, 0.0)))
    slope = -tl.where(logit > 0, small / (1.0 + small), 1.0 / (1.0 + small)) * factor

    for b in tl.static_range(EB):
        to_head = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        to_tail = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
            if ((CODE >> (8 * m)) & 3) == b:
                y = tl.load(relations + rp + ((CODE >> (8 * m + 2)) & 3) * DIM, mask=tile, other=0.0)
                z = tl.load(entities + tp + ((CODE >> (8 * m + 4)) & 3) * DIM, mask=tile, other=0.0)
                to_head += sign * _kept(y * z, row_keys, m * DIM + k, threshold, DROPOUT)
            if ((CODE >> (8 * m + 4)) & 3) == b:
                x = tl.load(entities + hp + ((CODE >> (8 * m)) & 3) * DIM, mask=tile, other=0.0)
                y = tl.load(relations + rp + ((CODE >> (8 * m + 2)) & 3) * DIM, mask=tile, other=0.0)
                to_tail += sign * _kept(x * y, row_keys, m * DIM + k, threshold, DROPOUT)
        tl.atomic_add(entity_gradients + hp + b * DIM, slope[:, None] * to_head, mask=tile, sem="relaxed")
        tl.atomic_add(entity_gradients + tp + b * DIM, slope[:, None] * to_tail, mask=tile, sem="relaxed")
    for b in tl.static_range(RB):
        to_relation = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
            if ((CODE >> (8 * m + 2)) & 3) == b:
                x = tl.load(entities + hp + ((CODE >> (8 * m)) & 3) * DIM, mask=tile, other=0.0)
                z = tl.load(entities + tp + ((CODE >> (8 * m + 4)) & 3) * DIM, mask=tile, other=0.0)
                to_relation += sign * _kept(x * z, row_keys, m * DIM + k, threshold, DROPOUT)
        tl.atomic_add(relation_gradients + rp + b * DIM, slope[:, None] * to_relation, mask=tile, sem="relaxed")

    if not ALL_ROWS:
        own_sums = sums + (step * SUM_COPIES + pid % SUM_COPIES) * ((EB + RB) * DIM)
        stamp = number + 1
        h_first = _claim(h, valid, entity_stamps, stamp, entity_found, counts + 2 * step)
        t_first = _claim(t, valid, entity_stamps, stamp, entity_found, counts + 2 * step)
        r_first = _claim(r, valid, relation_stamps, stamp, relation_found, counts + 2 * step + 1)
        for b in tl.static_range(EB):
            x = tl.load(entities + hp + b * DIM, mask=tile & h_first[:, None], other=0.0)
            z = tl.load(entities + tp + b * DIM, mask=tile & t_first[:, None], other=0.0)
            tl.atomic_add(own_sums + b * DIM + k, tl.sum(x + z, axis=0), mask=k < DIM, sem="relaxed")
        if tl.sum(r_first.to(tl.int32)) > 0:
            for b in tl.static_range(RB):
                y = tl.load(relations + rp + b * DIM, mask=tile & r_first[:, None], other=0.0)
                tl.atomic_add(own_sums + (EB + b) * DIM + k, tl.sum(y, axis=0), mask=k < DIM, sem="relaxed")


@triton.jit(do_not_specialize=["count", "step"])
def sum_rows(
    rows, count, sums, step, OFFSET: tl.constexpr, BLOCKS: tl.constexpr, ALL_BLOCKS: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, SUM_COPIES: tl.constexpr,
):  # fmt: skip
    """Add up a whole table of bounded rows, where every row takes part in each step."""
    pid = tl.program_id(0)
    u = pid * ROWS + tl.arange(0, ROWS)
    k = _columns(step, DIM, WIDE)
    tile = (u < count)[:, None] & (k < DIM)[None, :]
    own_sums = sums + (step * SUM_COPIES + pid % SUM_COPIES) * (ALL_BLOCKS * DIM)
    for b in tl.static_range(BLOCKS):
        x = tl.load(rows + (u.to(tl.int64) * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :], mask=tile, other=0.0)
        tl.atomic_add(own_sums + (OFFSET + b) * DIM + k, tl.sum(x, axis=0), mask=k < DIM, sem="relaxed")


@triton.jit
def _summed(sums, block, k, STRIDE: tl.constexpr, DIM: tl.constexpr, SUM_COPIES: tl.constexpr):
    copies = tl.arange(0, SUM_COPIES)
    tile = sums + (copies * STRIDE)[:, None] + block * DIM + k[None, :]
    return tl.sum(tl.load(tile, mask=(k < DIM)[None, :], other=0.0), axis=0)


@triton.jit(do_not_specialize=["step"])
def penalty(
    sums, losses, push, control, step, factor, weight,
    CODE: tl.constexpr, TERMS: tl.constexpr, EB: tl.constexpr, RB: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, SQUARED: tl.constexpr, SUM_COPIES: tl.constexpr,
):  # fmt: skip
    """Σ φ over all triples of the scope, its gradient by every row, and whether this step may be taken."""
    k = _columns(step, DIM, WIDE)
    STRIDE: tl.constexpr = (EB + RB) * DIM
    own = sums + step * SUM_COPIES * STRIDE
    total = 0.0
    for b in tl.static_range(EB):
        to_entity = tl.zeros([WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
            if ((CODE >> (8 * m)) & 3) == b:
                y = _summed(own, EB + ((CODE >> (8 * m + 2)) & 3), k, STRIDE, DIM, SUM_COPIES)
                z = _summed(own, (CODE >> (8 * m + 4)) & 3, k, STRIDE, DIM, SUM_COPIES)
                to_entity += sign * y * z
                total += sign * tl.sum(_summed(own, b, k, STRIDE, DIM, SUM_COPIES) * y * z)
            if ((CODE >> (8 * m + 4)) & 3) == b:
                x = _summed(own, (CODE >> (8 * m)) & 3, k, STRIDE, DIM, SUM_COPIES)
                y = _summed(own, EB + ((CODE >> (8 * m + 2)) & 3), k, STRIDE, DIM, SUM_COPIES)
                to_entity += sign * x * y
        tl.store(push + b * DIM + k, factor * to_entity, mask=k < DIM)
    for b in tl.static_range(RB):
        to_relation = tl.zeros([WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
            if ((CODE >> (8 * m + 2)) & 3) == b:
                x = _summed(own, (CODE >> (8 * m)) & 3, k, STRIDE, DIM, SUM_COPIES)
                z = _summed(own, (CODE >> (8 * m + 4)) & 3, k, STRIDE, DIM, SUM_COPIES)
                to_relation += sign * x * z
        tl.store(push + (EB + b) * DIM + k, factor * to_relation, mask=k < DIM)
    total = total * factor
    if SQUARED:
        value = weight * total * total
        pull = 2.0 * weight * total
    else:
        value = weight * tl.abs(total)
        pull = tl.where(total > 0, weight, tl.where(total < 0, -weight, 0.0))
    loss = tl.load(losses + 2 * step)
    tl.store(losses + 2 * step + 1, value)
    tl.store(control, pull)
    tl.store(control + 1, tl.where(tl.abs(loss + value) < float("inf"), 1.0, 0.0))  # false for NaN too


@triton.jit(do_not_specialize=["step", "table_rows"])
def adagrad(
    weights, squares, rows, gradients, found, counts, step, push, control, rate, epsilon, table_rows,
    WHICH: tl.constexpr, BLOCKS: tl.constexpr, DIM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
    BOUNDED: tl.constexpr, ALL_ROWS: tl.constexpr,
):  # fmt: skip
    """The AdaGrad step of ROWS listed rows."""
    u = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    if ALL_ROWS:
        valid = u < table_rows
        row = u.to(tl.int64)
    else:
        count = tl.load(counts + 2 * step + WHICH)
        if tl.program_id(0) * ROWS >= count:
            return
        valid = u < count
        row = tl.load(found + u, mask=valid, other=0).to(tl.int64)
    pull = tl.load(control)
    go = tl.load(control + 1)
    k = _columns(step, DIM, WIDE)
    tile = valid[:, None] & (k < DIM)[None, :]
    for b in tl.static_range(BLOCKS):
        place = (row * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :]
        g = tl.load(gradients + place, mask=tile, other=0.0)
        tl.store(gradients + place, tl.zeros([ROWS, WIDE], dtype=tl.float32), mask=tile)
        w = tl.load(weights + place, mask=tile, other=0.0)
        s = tl.load(squares + place, mask=tile, other=1.0)
        g += pull * tl.load(push + b * DIM + k, mask=k < DIM, other=0.0)[None, :]
        if BOUNDED:
            x = tl.load(rows + place, mask=tile, other=0.0)
            g *= 1.0 - x * x
        g = tl.where(go > 0.5, g, 0.0)  # with no gradient AdaGrad changes nothing: a bad step is not taken
        s += g * g
        w -= rate * g / (tl.sqrt(s) + epsilon)
        tl.store(squares + place, s, mask=tile)
        tl.store(weights + place, w, mask=tile)
        if BOUNDED:
            tl.store(rows + place, _tanh(w), mask=tile)
