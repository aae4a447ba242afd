"""The fused step on the GPU, in Triton: two launches a step, and nothing that waits for the host.

1. `examples`: gathers the rows of some examples, scores them, and adds their gradients to the buffers of the rows'
   slots by atomics; rows met for the first time in the step are added up on the way (Theorem 1's sums).
2. `adagrad`: for each distinct row of the step the whole gradient (the examples', the penalty's from the sums, L2's),
   through the bound, into AdaGrad; clears the buffer.

Which rows a step has, and each one's slot, is worked out beforehand (see `step_plan.py`). Several runs that differ in
their numbers alone may go side by side: `program_id(1)` is the run, whose numbers are a row of `hyperparameters`.

A model's table of terms travels as one whole number, eight bits per term (see `encode_terms` in `models/gpu.py`),
which the compiler unrolls: no two models share a compiled kernel, and none pays for another's terms.
"""

from __future__ import annotations

import triton
import triton.language as tl

from staypositive.models.gpu import mix

COPIES = tl.constexpr(8)
"""Sums of rows are collected in this number of copies, so that atomics do not queue."""
KNOBS = tl.constexpr(8)
"""Numbers per run, in the order of the names below."""
PRIOR_SCORE, KEPT_FACTOR, FACTOR, RATE, EPSILON, WEIGHT, DECAY = (tl.constexpr(k) for k in range(7))
SLOT = tl.constexpr(0x7FFFFFFF)
"""The bits of a planned slot that number it; the sign says: first of its row in the step."""
LOSSES = tl.constexpr(4)
"""Sums per step: losses of facts, of negatives, the penalty, Σ weight²."""


@triton.jit
def _row(values, BOUNDED: tl.constexpr):
    values = values.to(tl.float32)
    if BOUNDED:
        small = tl.exp(-2.0 * tl.abs(values))
        size = (1.0 - small) / (1.0 + small)
        values = tl.where(values < 0, -size, size)
    return values


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
        bits = mix(row_keys[:, None] + (columns.to(tl.uint32) * 0x9E3779B9)[None, :])
        values = tl.where(bits >= threshold, values, 0.0)
    return values


@triton.jit
def _pick(x0, x1, x2, x3, B: tl.constexpr):
    chosen = x0
    if B == 1:
        chosen = x1
    if B == 2:
        chosen = x2
    if B == 3:
        chosen = x3
    return chosen


@triton.jit
def _load4(rows, place, tile, BLOCKS: tl.constexpr, DIM: tl.constexpr, BOUNDED: tl.constexpr):
    """A row's blocks, each once; those it does not have repeat the first."""
    x0 = _row(tl.load(rows + place, mask=tile, other=0.0), BOUNDED)
    x1 = x0
    x2 = x0
    x3 = x0
    if BLOCKS > 1:
        x1 = _row(tl.load(rows + place + DIM, mask=tile, other=0.0), BOUNDED)
    if BLOCKS > 2:
        x2 = _row(tl.load(rows + place + 2 * DIM, mask=tile, other=0.0), BOUNDED)
    if BLOCKS > 3:
        x3 = _row(tl.load(rows + place + 3 * DIM, mask=tile, other=0.0), BOUNDED)
    return x0, x1, x2, x3


@triton.jit(do_not_specialize=["start", "n", "n_facts", "step", "plan_size"])
def examples(
    ids, slots, plan_size, plan_of_run, start, n, n_facts, entities, relations, n_entities, n_relations,
    entity_gradients, relation_gradients, entity_room, relation_room, entity_found, relation_found, sums, losses,
    steps, step, steps_before, hyperparameters, hashes,
    CODE: tl.constexpr, TERMS: tl.constexpr, EB: tl.constexpr, RB: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr, SUMS: tl.constexpr, BOUNDED: tl.constexpr,
    NEGATIVES: tl.constexpr, ALL_ROWS: tl.constexpr,
):  # fmt: skip
    """Scores, losses and gradients of ROWS examples of one run."""
    pid = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    i = pid * ROWS + tl.arange(0, ROWS)
    valid = i < n
    k = _columns(step, DIM, WIDE)
    tile = valid[:, None] & (k < DIM)[None, :]
    plan = tl.load(plan_of_run + run).to(tl.int64)
    planned = plan * (3 * plan_size) + start + i
    h = tl.load(ids + planned, mask=valid, other=0).to(tl.int64)
    r = tl.load(ids + planned + plan_size, mask=valid, other=0).to(tl.int64)
    t = tl.load(ids + planned + 2 * plan_size, mask=valid, other=0).to(tl.int64)
    h_slot = tl.load(slots + planned, mask=valid, other=0)
    r_slot = tl.load(slots + planned + plan_size, mask=valid, other=0)
    t_slot = tl.load(slots + planned + 2 * plan_size, mask=valid, other=0)
    own = hyperparameters + run * KNOBS
    factor = tl.load(own + KEPT_FACTOR)
    threshold = tl.load(hashes + 2 * run).to(tl.uint32)
    number = (tl.load(steps_before) + step).to(tl.uint32)
    row_keys = mix(mix(tl.load(hashes + 2 * run + 1).to(tl.uint32) + number) + i.to(tl.uint32))

    if ALL_ROWS:  # tell `adagrad` which rows have gradients in this step
        marks = entity_found + plan * n_entities
        tl.store(marks + h, number.to(tl.int32), mask=valid)
        tl.store(marks + t, number.to(tl.int32), mask=valid)
        tl.store(relation_found + plan * n_relations + r, number.to(tl.int32), mask=valid)

    own_entities = entities + run * n_entities * (EB * DIM)
    own_relations = relations + run * n_relations * (RB * DIM)
    h0, h1, h2, h3 = _load4(own_entities, (h * (EB * DIM))[:, None] + k[None, :], tile, EB, DIM, BOUNDED)
    r0, r1, r2, r3 = _load4(own_relations, (r * (RB * DIM))[:, None] + k[None, :], tile, RB, DIM, BOUNDED)
    t0, t1, t2, t3 = _load4(own_entities, (t * (EB * DIM))[:, None] + k[None, :], tile, EB, DIM, BOUNDED)

    products = tl.zeros([ROWS, WIDE], dtype=tl.float32)
    for m in tl.static_range(TERMS):
        x = _pick(h0, h1, h2, h3, (CODE >> (8 * m)) & 3)
        y = _pick(r0, r1, r2, r3, (CODE >> (8 * m + 2)) & 3)
        z = _pick(t0, t1, t2, t3, (CODE >> (8 * m + 4)) & 3)
        sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
        products += sign * _kept(x * y * z, row_keys, m * DIM + k, threshold, DROPOUT)
    label = tl.where(i < n_facts, 1.0, -1.0)
    logit = label * (tl.sum(products, axis=1) * factor + tl.load(own + PRIOR_SCORE))
    small = tl.exp(-tl.abs(logit))
    loss = tl.log(1.0 + small) + tl.maximum(-logit, 0.0)
    own_losses = losses + (run * steps + step) * LOSSES
    tl.atomic_add(own_losses, tl.sum(tl.where(valid & (i < n_facts), loss, 0.0)))
    if NEGATIVES:
        tl.atomic_add(own_losses + 1, tl.sum(tl.where(valid & (i >= n_facts), loss, 0.0)))
    slope = (-label * tl.where(logit > 0, small / (1.0 + small), 1.0 / (1.0 + small)) * factor)[:, None]

    to_entities = entity_gradients + run * entity_room * (EB * DIM)
    to_h = to_entities + ((h_slot & SLOT).to(tl.int64) * (EB * DIM))[:, None] + k[None, :]
    to_t = to_entities + ((t_slot & SLOT).to(tl.int64) * (EB * DIM))[:, None] + k[None, :]
    to_r = (
        relation_gradients + run * relation_room * (RB * DIM)
        + ((r_slot & SLOT).to(tl.int64) * (RB * DIM))[:, None] + k[None, :]
    )  # fmt: skip
    for b in tl.static_range(EB):
        to_head = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        to_tail = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
            y = _pick(r0, r1, r2, r3, (CODE >> (8 * m + 2)) & 3)
            if ((CODE >> (8 * m)) & 3) == b:
                z = _pick(t0, t1, t2, t3, (CODE >> (8 * m + 4)) & 3)
                to_head += sign * _kept(y * z, row_keys, m * DIM + k, threshold, DROPOUT)
            if ((CODE >> (8 * m + 4)) & 3) == b:
                x = _pick(h0, h1, h2, h3, (CODE >> (8 * m)) & 3)
                to_tail += sign * _kept(x * y, row_keys, m * DIM + k, threshold, DROPOUT)
        tl.atomic_add(to_h + b * DIM, slope * to_head, mask=tile, sem="relaxed")
        tl.atomic_add(to_t + b * DIM, slope * to_tail, mask=tile, sem="relaxed")
    for b in tl.static_range(RB):
        to_relation = tl.zeros([ROWS, WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            if ((CODE >> (8 * m + 2)) & 3) == b:
                sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
                x = _pick(h0, h1, h2, h3, (CODE >> (8 * m)) & 3)
                z = _pick(t0, t1, t2, t3, (CODE >> (8 * m + 4)) & 3)
                to_relation += sign * _kept(x * z, row_keys, m * DIM + k, threshold, DROPOUT)
        tl.atomic_add(to_r + b * DIM, slope * to_relation, mask=tile, sem="relaxed")

    if SUMS:
        into = sums + (run * COPIES + pid % COPIES) * ((EB + RB) * DIM) + k
        h_first = (h_slot < 0)[:, None]
        r_first = (r_slot < 0)[:, None]
        t_first = (t_slot < 0)[:, None]
        for b in tl.static_range(EB):
            x = tl.where(h_first, _pick(h0, h1, h2, h3, b), 0.0) + tl.where(t_first, _pick(t0, t1, t2, t3, b), 0.0)
            tl.atomic_add(into + b * DIM, tl.sum(x, axis=0), mask=k < DIM, sem="relaxed")
        if tl.sum((r_slot < 0).to(tl.int32)) > 0:
            for b in tl.static_range(RB):
                y = tl.where(r_first, _pick(r0, r1, r2, r3, b), 0.0)
                tl.atomic_add(into + (EB + b) * DIM, tl.sum(y, axis=0), mask=k < DIM, sem="relaxed")


@triton.jit(do_not_specialize=["count"])
def sum_rows(
    rows, count, sums, OFFSET: tl.constexpr, BLOCKS: tl.constexpr, ALL_BLOCKS: tl.constexpr,
    DIM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Add up a whole table of rows, where every row takes part in each step."""
    pid = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    u = pid * ROWS + tl.arange(0, ROWS)
    k = _columns(count, DIM, WIDE)
    tile = (u < count)[:, None] & (k < DIM)[None, :]
    into = sums + (run * COPIES + pid % COPIES) * (ALL_BLOCKS * DIM) + k
    place = ((run * count + u) * (BLOCKS * DIM))[:, None] + k[None, :]
    for b in tl.static_range(BLOCKS):
        x = _row(tl.load(rows + place + b * DIM, mask=tile, other=0.0), BOUNDED)
        tl.atomic_add(into + (OFFSET + b) * DIM, tl.sum(x, axis=0), mask=k < DIM, sem="relaxed")


@triton.jit
def _summed(sums, block, k, STRIDE: tl.constexpr, DIM: tl.constexpr):
    copies = tl.arange(0, COPIES)
    tile = sums + (copies * STRIDE)[:, None] + block * DIM + k[None, :]
    return tl.sum(tl.load(tile, mask=(k < DIM)[None, :], other=0.0), axis=0)


@triton.jit
def _summed4(sums, first, k, BLOCKS: tl.constexpr, STRIDE: tl.constexpr, DIM: tl.constexpr):
    x0 = _summed(sums, first, k, STRIDE, DIM)
    x1 = x0
    x2 = x0
    x3 = x0
    if BLOCKS > 1:
        x1 = _summed(sums, first + 1, k, STRIDE, DIM)
    if BLOCKS > 2:
        x2 = _summed(sums, first + 2, k, STRIDE, DIM)
    if BLOCKS > 3:
        x3 = _summed(sums, first + 3, k, STRIDE, DIM)
    return x0, x1, x2, x3


@triton.jit
def _toward(
    e0, e1, e2, e3, r0, r1, r2, r3, B: tl.constexpr, RELATIONS: tl.constexpr, CODE: tl.constexpr,
    TERMS: tl.constexpr,
):  # fmt: skip
    """The gradient of the summed score by one block of every row."""
    push = tl.zeros_like(e0)
    for m in tl.static_range(TERMS):
        sign = 1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)
        x = _pick(e0, e1, e2, e3, (CODE >> (8 * m)) & 3)
        y = _pick(r0, r1, r2, r3, (CODE >> (8 * m + 2)) & 3)
        z = _pick(e0, e1, e2, e3, (CODE >> (8 * m + 4)) & 3)
        if RELATIONS:
            if ((CODE >> (8 * m + 2)) & 3) == B:
                push += sign * x * z
        else:
            if ((CODE >> (8 * m)) & 3) == B:
                push += sign * y * z
            if ((CODE >> (8 * m + 4)) & 3) == B:
                push += sign * x * y
    return push


@triton.jit
def _gradient(gradients, w, push, decay, go, place, met, BOUNDED: tl.constexpr):
    """The whole gradient of one block of some rows, given their weights; rows that no example met have no buffer."""
    g = tl.load(gradients + place, mask=met, other=0.0) + push[None, :]
    if BOUNDED:
        x = _row(w, BOUNDED)
        g *= 1.0 - x * x
    g += decay * w
    return tl.where(go > 0.5, g, 0.0)  # with no gradient AdaGrad changes nothing: a bad step is not taken


@triton.jit
def _rounded(values, key, row, columns, SALT: tl.constexpr):
    """Round to bfloat16 at random: see `staypositive.training.optimisers.round_at_random`."""
    row_keys = mix(mix(key + ((SALT * 0x9E3779B9) & 0xFFFFFFFF)) + row.to(tl.uint32))
    bits = mix(row_keys[:, None] + (columns.to(tl.uint32) * 0x9E3779B9)[None, :]) & 0xFFFF
    raised = (values.to(tl.uint32, bitcast=True) + bits) & 0xFFFF0000
    return raised.to(tl.float32, bitcast=True).to(tl.bfloat16)


@triton.jit
def _update(
    weights, squares, gradients, found, first, count, lane, lanes, k, e0, e1, e2, e3, r0, r1, r2, r3, pull, go, decay,
    rate, epsilon, own_losses, number, key,
    RELATIONS: tl.constexpr, BLOCKS: tl.constexpr, CODE: tl.constexpr, TERMS: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BOUNDED: tl.constexpr, ALL_ROWS: tl.constexpr, ROWWISE: tl.constexpr,
    L2: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """The AdaGrad steps of every lanes-th group of ROWS rows of one table."""
    for begin in range(lane * ROWS, count, lanes * ROWS):
        u = begin + tl.arange(0, ROWS)
        valid = u < count
        row = u.to(tl.int64)
        tile = valid[:, None] & (k < DIM)[None, :]
        met = tile
        if ALL_ROWS:
            met = tile & (tl.load(found + u, mask=valid, other=-1) == number)[:, None]
        else:
            row = tl.load(found + first + u, mask=valid, other=0).to(tl.int64)
        size = tl.zeros([ROWS], dtype=tl.float32)
        length = tl.zeros([ROWS], dtype=tl.float32)
        if ROWWISE:
            for b in tl.static_range(BLOCKS):
                place = (row * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :]
                slot = (u.to(tl.int64) * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :]
                push = pull * _toward(e0, e1, e2, e3, r0, r1, r2, r3, b, RELATIONS, CODE, TERMS)
                w = tl.load(weights + place, mask=tile, other=0.0).to(tl.float32)
                g = tl.where(tile, _gradient(gradients, w, push, decay, go, slot, met, BOUNDED), 0.0)
                size += tl.sum(g * g, axis=1)
            s = tl.load(squares + row, mask=valid, other=1.0) + size / (BLOCKS * DIM)
            tl.store(squares + row, s, mask=valid)
            size = rate / (tl.sqrt(s) + epsilon)
        for b in tl.static_range(BLOCKS):
            place = (row * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :]
            slot = (u.to(tl.int64) * (BLOCKS * DIM))[:, None] + b * DIM + k[None, :]
            push = pull * _toward(e0, e1, e2, e3, r0, r1, r2, r3, b, RELATIONS, CODE, TERMS)
            w = tl.load(weights + place, mask=tile, other=0.0).to(tl.float32)
            g = _gradient(gradients, w, push, decay, go, slot, met, BOUNDED)
            if L2:
                length += tl.sum(tl.where(tile, w * w, 0.0), axis=1)
            if ROWWISE:
                w -= g * size[:, None]
            else:
                s = tl.load(squares + place, mask=tile, other=1.0) + g * g
                w -= rate * g / (tl.sqrt(s) + epsilon)
                tl.store(squares + place, s, mask=tile)
            # Stores come after the last load: one in between made the kernel 2.8 times slower on an H200.
            tl.store(gradients + slot, tl.zeros([ROWS, WIDE], dtype=tl.float32), mask=met)
            if ROUND:
                tl.store(weights + place, _rounded(w, key, row, b * DIM + k, 2 + RELATIONS), mask=tile)
            else:
                tl.store(weights + place, w, mask=tile)
        if L2:
            tl.atomic_add(own_losses + 3, tl.sum(length), sem="relaxed")


@triton.jit(do_not_specialize=["steps", "step", "entity_lanes", "relation_lanes"])
def adagrad(
    entities, relations, entity_squares, relation_squares, entity_gradients, relation_gradients, entity_found,
    relation_found, starts, plan_of_run, n_entities, n_relations, entity_room, relation_room, entity_plan,
    relation_plan, entity_lanes, relation_lanes, sums, next_sums, losses, steps, step, steps_before, hyperparameters,
    hashes,
    CODE: tl.constexpr, TERMS: tl.constexpr, EB: tl.constexpr, RB: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BOUNDED: tl.constexpr, ALL_ROWS: tl.constexpr, PENALTY: tl.constexpr,
    ROWWISE: tl.constexpr, L2: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """The penalty from the summed rows (every program for itself), then AdaGrad on this program's share of rows."""
    pid = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    k = _columns(step, DIM, WIDE)
    own = hyperparameters + run * KNOBS
    own_losses = losses + (run * steps + step) * LOSSES
    loss = tl.load(own_losses) + tl.load(own_losses + 1)
    pull = 0.0
    e0 = tl.zeros([WIDE], dtype=tl.float32)
    e1 = e0
    e2 = e0
    e3 = e0
    r0 = e0
    r1 = e0
    r2 = e0
    r3 = e0
    if PENALTY > 0:
        STRIDE: tl.constexpr = (EB + RB) * DIM
        own_sums = sums + run * COPIES * STRIDE
        e0, e1, e2, e3 = _summed4(own_sums, 0, k, EB, STRIDE, DIM)
        r0, r1, r2, r3 = _summed4(own_sums, EB, k, RB, STRIDE, DIM)
        products = tl.zeros([WIDE], dtype=tl.float32)
        for m in tl.static_range(TERMS):
            x = _pick(e0, e1, e2, e3, (CODE >> (8 * m)) & 3)
            y = _pick(r0, r1, r2, r3, (CODE >> (8 * m + 2)) & 3)
            z = _pick(e0, e1, e2, e3, (CODE >> (8 * m + 4)) & 3)
            products += (1.0 - 2.0 * ((CODE >> (8 * m + 6)) & 1)) * x * y * z
        factor = tl.load(own + FACTOR)
        weight = tl.load(own + WEIGHT)
        total = tl.sum(products) * factor
        if PENALTY == 2:
            value = weight * total * total
            pull = 2.0 * weight * total * factor
        else:
            value = weight * tl.abs(total)
            pull = tl.where(total > 0, weight, tl.where(total < 0, -weight, 0.0)) * factor
        loss += value
        if pid == 0:
            tl.store(own_losses + 2, value)
        for copy in range(pid, COPIES, tl.num_programs(0)):  # what the next step adds into
            for b in tl.static_range(EB + RB):
                into = next_sums + (run * COPIES + copy) * STRIDE + b * DIM + k
                tl.store(into, tl.zeros([WIDE], dtype=tl.float32), mask=k < DIM)
    go = tl.where(tl.abs(loss) < float("inf"), 1.0, 0.0)  # zero for NaN too
    rate = tl.load(own + RATE)
    epsilon = tl.load(own + EPSILON)
    decay = tl.load(own + DECAY)
    plan = tl.load(plan_of_run + run).to(tl.int64)
    number = tl.load(steps_before) + step
    key = mix(tl.load(hashes + 2 * run + 1).to(tl.uint32) + number.to(tl.uint32))
    number = number.to(tl.int32)
    if pid < entity_lanes:
        first = tl.load(starts + (2 * plan) * (steps + 1) + step)
        count = tl.load(starts + (2 * plan) * (steps + 1) + step + 1) - first
        if ALL_ROWS:
            count = n_entities
        _update(
            entities + run * n_entities * (EB * DIM),
            entity_squares + run * n_entities * (1 if ROWWISE else EB * DIM),
            entity_gradients + run * entity_room * (EB * DIM), entity_found + plan * entity_plan, first, count, pid,
            entity_lanes, k, e0, e1, e2, e3, r0, r1, r2, r3, pull, go, decay, rate, epsilon, own_losses, number,
            key, False, EB, CODE, TERMS, DIM, WIDE, ROWS, BOUNDED, ALL_ROWS, ROWWISE, L2, ROUND,
        )  # fmt: skip
    else:
        first = tl.load(starts + (2 * plan + 1) * (steps + 1) + step)
        count = tl.load(starts + (2 * plan + 1) * (steps + 1) + step + 1) - first
        if ALL_ROWS:
            count = n_relations
        _update(
            relations + run * n_relations * (RB * DIM),
            relation_squares + run * n_relations * (1 if ROWWISE else RB * DIM),
            relation_gradients + run * relation_room * (RB * DIM), relation_found + plan * relation_plan, first,
            count, pid - entity_lanes, relation_lanes, k, e0, e1, e2, e3, r0, r1, r2, r3, pull, go, decay, rate,
            epsilon, own_losses, number, key,
            True, RB, CODE, TERMS, DIM, WIDE, ROWS, BOUNDED, ALL_ROWS, ROWWISE, L2, ROUND,
        )  # fmt: skip
