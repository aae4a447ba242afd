"""The fused step on the CPU, compiled by numba: gather, bound, score, loss, both gradients, AdaGrad.

The kernels serve the whole block family: they take a model's table of terms as data. No two threads ever write the
same number, so there are no atomics, and a seed gives the same result each time with the same number of threads:

1. distinct rows of the step, by stamps (serial, O(examples));
2. their bounded rows, and partial sums of them over fixed blocks (threads share out rows);
3. scores, losses and the slope of each example (threads share out examples);
4. the sum of all scores and its gradient, one vector for every entity (serial, O(width));
5. gradients (threads share out examples, each adding into buffers of its own);
6. AdaGrad (threads share out rows, adding the buffers up).
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import njit, prange

BLOCKS = 32
"""Partial sums are always taken over this number of blocks, whatever the number of threads."""

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp", "afn"},  # not nnan or ninf: a bad loss must be seen
}

# x·P(x²)/Q(x²) on [-9, 9], fitted by reweighted least squares: within 5e-7 of tanh in 32-bit arithmetic, and, unlike
# the C library's tanh, a few vector instructions.
_P0, _P1, _P2 = np.float32(0.99999994), np.float32(0.12919264), np.float32(0.002920799)
_P3, _P4, _P5 = np.float32(9.26773e-06), np.float32(-1.2781251e-08), np.float32(1.8256997e-11)
_Q1, _Q2, _Q3 = np.float32(0.4625255), np.float32(0.023763325), np.float32(0.00022810513)
_ONE, _NINE = np.float32(1), np.float32(9)


@njit(inline="always", **_OPTIONS)
def _tanh(x: Any) -> Any:
    x = min(max(x, -_NINE), _NINE)
    u = x * x
    p = ((((_P5 * u + _P4) * u + _P3) * u + _P2) * u + _P1) * u + _P0
    q = ((_Q3 * u + _Q2) * u + _Q1) * u + _ONE
    return min(max(x * p / q, -_ONE), _ONE)


@njit(inline="always", **_OPTIONS)
def _mix(x: Any) -> Any:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return x ^ (x >> np.uint32(16))


@njit(**_OPTIONS)
def distinct(ids: Any, stamps: Any, slots: Any, stamp: int, found: Any, count: int) -> int:
    """Number the ids not yet stamped in this step; return how many rows there are now."""
    for i in range(ids.shape[0]):
        row = ids[i]
        if stamps[row] != stamp:
            stamps[row] = stamp
            slots[row] = count
            found[count] = row
            count += 1
    return count


@njit(parallel=True, **_OPTIONS)
def gather(
    table: Any, found: Any, count: int, bounded: bool, rows: Any, gradients: Any, parts: int, sums: Any
) -> float:
    """Fill the bounded rows of the step, clear their gradients, add the rows up; return Σ weight²."""
    width = table.shape[1]
    partial = np.zeros((BLOCKS, width), dtype=np.float32)
    squares = np.zeros(BLOCKS)
    for block in prange(BLOCKS):
        own = partial[block]
        square: Any = 0.0
        for u in range(block * count // BLOCKS, (block + 1) * count // BLOCKS):
            weights, row = table[found[u]], rows[u]
            gradients[:parts, u] = 0
            length = np.float32(0)
            for k in range(width):
                value = weights[k]
                length += value * value
                if bounded:
                    value = _tanh(value)
                row[k] = value
                own[k] += value
            square += length
        squares[block] = square
    for k in range(width):
        total = 0.0
        for block in range(BLOCKS):
            total += partial[block, k]
        sums[k] = total
    return squares.sum()


@njit(**_OPTIONS)
def penalty_gradient(terms: Any, factors: Any, dim: int, e: Any, r: Any, to_e: Any, to_r: Any) -> float:
    """Return Σ φ over all triples of the scope (Theorem 1), and its gradient by each entity's and relation's row."""
    to_e[:] = 0
    to_r[:] = 0
    total = 0.0
    for n in range(terms.shape[0]):
        h, q, t = terms[n, 0] * dim, terms[n, 1] * dim, terms[n, 2] * dim
        for k in range(dim):
            total += factors[n] * e[h + k] * r[q + k] * e[t + k]
            to_e[h + k] += factors[n] * r[q + k] * e[t + k]
            to_e[t + k] += factors[n] * e[h + k] * r[q + k]
            to_r[q + k] += factors[n] * e[h + k] * e[t + k]
    return total


@njit(parallel=True, **_OPTIONS)
def slopes(
    triples: Any, facts: int, entity_slots: Any, relation_slots: Any, entities: Any, relations: Any, terms: Any,
    factors: Any, dim: int, prior_score: float, threshold: int, key: int, slope: Any,
) -> tuple[float, float]:  # fmt: skip
    """Score the examples; fill each one's ∂loss/∂φ; return the losses of facts and of negatives, each a sum."""
    n = triples.shape[0]
    losses = np.zeros((BLOCKS, 2))
    for block in prange(BLOCKS):
        for i in range(block * n // BLOCKS, (block + 1) * n // BLOCKS):
            h = entities[entity_slots[triples[i, 0]]]
            r = relations[relation_slots[triples[i, 1]]]
            t = entities[entity_slots[triples[i, 2]]]
            row_key = _mix(np.uint32(key + i))
            score = 0.0
            for m in range(terms.shape[0]):
                a = h[terms[m, 0] * dim : terms[m, 0] * dim + dim]
                b = r[terms[m, 1] * dim : terms[m, 1] * dim + dim]
                c = t[terms[m, 2] * dim : terms[m, 2] * dim + dim]
                part = np.float32(0)
                if threshold == 0:
                    for k in range(dim):
                        part += a[k] * b[k] * c[k]
                else:
                    for k in range(dim):
                        bits = _mix(np.uint32(row_key + np.uint32((m * dim + k) * 0x9E3779B9)))
                        part += a[k] * b[k] * c[k] if bits >= np.uint32(threshold) else np.float32(0)
                score += factors[m] * part
            sign = 1.0 if i < facts else -1.0
            x = sign * (score + prior_score)
            small = math.exp(-abs(x))
            losses[block, 0 if i < facts else 1] += math.log1p(small) + max(-x, 0.0)
            slope[i] = -sign * (small / (1 + small) if x > 0 else 1 / (1 + small))
    return losses[:, 0].sum(), losses[:, 1].sum()


@njit(inline="always", **_OPTIONS)
def _add_products(into: Any, weight: Any, x: Any, y: Any, threshold: int, row_key: Any, start: int) -> None:
    """Add weight · mask · x · y, entry by entry."""
    if threshold == 0:
        for k in range(into.shape[0]):
            into[k] += weight * x[k] * y[k]
    else:
        for k in range(into.shape[0]):
            bits = _mix(np.uint32(row_key + np.uint32((start + k) * 0x9E3779B9)))
            into[k] += weight * x[k] * y[k] if bits >= np.uint32(threshold) else np.float32(0)


@njit(parallel=True, **_OPTIONS)
def accumulate(
    triples: Any, slope: Any, entity_slots: Any, relation_slots: Any, entities: Any, relations: Any, terms: Any,
    factors: Any, dim: int, threshold: int, key: int, parts: int, to_entities: Any, to_relations: Any,
) -> None:  # fmt: skip
    """Add each example's gradient to the rows it touches; each thread has examples and buffers of its own."""
    n = triples.shape[0]
    for part in prange(parts):
        into_entities, into_relations = to_entities[part], to_relations[part]
        for i in range(part * n // parts, (part + 1) * n // parts):
            head, tail = entity_slots[triples[i, 0]], entity_slots[triples[i, 2]]
            relation = relation_slots[triples[i, 1]]
            row_key = _mix(np.uint32(key + i))
            for m in range(terms.shape[0]):
                h, r, t = terms[m, 0] * dim, terms[m, 1] * dim, terms[m, 2] * dim
                x = entities[head, h : h + dim]
                y = relations[relation, r : r + dim]
                z = entities[tail, t : t + dim]
                weight, start = np.float32(slope[i] * factors[m]), m * dim
                _add_products(into_entities[head, h : h + dim], weight, y, z, threshold, row_key, start)
                _add_products(into_entities[tail, t : t + dim], weight, x, y, threshold, row_key, start)
                _add_products(into_relations[relation, r : r + dim], weight, x, z, threshold, row_key, start)


@njit(parallel=True, **_OPTIONS)
def adagrad(
    table: Any, squares: Any, found: Any, count: int, rows: Any, gradients: Any, parts: int, push: Any, pull: float,
    decay: float, bounded: bool, rate: float, epsilon: float, rowwise: bool,
) -> None:  # fmt: skip
    """Take the AdaGrad step of each touched row: the examples' gradient, the penalty's pull · push, L2."""
    pulled, decayed = np.float32(pull), np.float32(decay)
    rated, small = np.float32(rate), np.float32(epsilon)
    for block in prange(BLOCKS):
        for u in range(block * count // BLOCKS, (block + 1) * count // BLOCKS):
            w, s, row, g = table[found[u]], squares[found[u]], rows[u], gradients[0, u]
            for part in range(1, parts):
                other = gradients[part, u]
                for k in range(g.shape[0]):
                    g[k] += other[k]
            if rowwise:
                total = np.float32(0)
                for k in range(w.shape[0]):
                    slope = g[k] + pulled * push[k]
                    if bounded:
                        slope *= _ONE - row[k] * row[k]
                    slope += decayed * w[k]
                    g[k] = slope
                    total += slope * slope
                s[0] += total / np.float32(w.shape[0])
                step = rated / (np.sqrt(s[0]) + small)
                for k in range(w.shape[0]):
                    w[k] -= step * g[k]
            else:
                for k in range(w.shape[0]):
                    slope = g[k] + pulled * push[k]
                    if bounded:
                        slope *= _ONE - row[k] * row[k]
                    slope += decayed * w[k]
                    square = s[k] + slope * slope
                    s[k] = square
                    w[k] -= rated * slope / (np.sqrt(square) + small)


def available_threads(wanted: int) -> int:
    return max(1, min(wanted, vars(numba.config)["NUMBA_NUM_THREADS"]))


def set_threads(threads: int) -> None:
    numba.set_num_threads(threads)
