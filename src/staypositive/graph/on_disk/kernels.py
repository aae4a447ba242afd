"""What is done to every label and every triple of a stream, compiled by numba (extra `fast`).

A label is known by 127 bits: a *hash* of 63, by which it is sorted and found, and a *check* of 64, by which two
labels of one hash are told apart. In an array of cells a hash is never negative, and `~id` always is: so a cell says
itself whether it has been encoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

PROBES = 8
TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_M, _N = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S31, _S30, _S27, _ONE = np.uint64(31), np.uint64(30), np.uint64(27), np.uint64(1)


@njit(inline="always")
def _mixed(x: Any) -> Any:
    """SplitMix64's finaliser (Steele et al. 2014): a bijection of 64 bits."""
    x = (x ^ (x >> _S30)) * _M
    x = (x ^ (x >> _S27)) * _N
    return x ^ (x >> _S31)


@njit(cache=True, nogil=True)
def split_lines(data: Any, roles: Any, starts: Any, lengths: Any) -> Any:
    """Find the cells of whole lines; blank lines are passed over.

    `roles` says for each cell of a line which of the three columns it is, or -1 where it is not read. Returns the
    rows found, and the number of the first line of another width, or -1.
    """
    row, line, cell, start, width = 0, 0, 0, 0, roles.shape[0]
    for i in range(data.shape[0]):
        byte = data[i]
        if byte != TAB and byte != NEWLINE:
            continue
        end = i
        while byte == NEWLINE and end > start and data[end - 1] == RETURN:
            end -= 1
        if byte == NEWLINE and cell == 0 and end == start:
            start, line = i + 1, line + 1
            continue
        if cell < width and roles[cell] >= 0:
            starts[row, roles[cell]], lengths[row, roles[cell]] = start, end - start
        cell, start = cell + 1, i + 1
        if byte == NEWLINE:
            if cell != width:
                return row, line
            row, line, cell = row + 1, line + 1, 0
    return row, -1


@njit(cache=True, nogil=True)
def hash_labels(data: Any, starts: Any, lengths: Any, hashes: Any, checks: Any) -> None:
    """Fill the hash, inverted of a blank label, and the check of each."""
    for i in range(starts.shape[0]):
        start, length = starts[i], lengths[i]
        one, two, blank = np.uint64(length) * _A, np.uint64(length) * _B, True
        for begin in range(0, length, 8):
            word = np.uint64(0)
            for k in range(min(8, length - begin)):
                byte = data[start + begin + k]
                blank = blank and byte <= SPACE
                word |= np.uint64(byte) << np.uint64(8 * k)
            one = _mixed((one ^ word) + _A)
            two = _mixed((two ^ word) + _B)
        own = np.int64(one >> _ONE)
        hashes[i], checks[i] = ~own if blank else own, np.int64(two)


@njit(cache=True, nogil=True)
def unseen(hashes: Any, checks: Any, table: Any, found: Any) -> int:
    """Fill the places of labels not seen lately; return how many.

    `table` remembers labels, shape (power of two, 2), -1 where it is free. Where it is full a new label takes an old
    one's place, so that what is asked for often stays and what is rare may be found anew.
    """
    mask, count = table.shape[0] - 1, 0
    for i in range(hashes.shape[0]):
        own, check = hashes[i], checks[i]
        slot, known = own & mask, False
        for probe in range(PROBES):
            slot = (own + probe) & mask
            if table[slot, 0] == own and table[slot, 1] == check:
                known = True
                break
            if table[slot, 0] < 0:
                break
        if not known:
            table[slot, 0], table[slot, 1] = own, check
            found[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def gather_bytes(data: Any, starts: Any, lengths: Any, out: Any) -> None:
    place = 0
    for i in range(starts.shape[0]):
        for k in range(lengths[i]):
            out[place + k] = data[starts[i] + k]
        place += lengths[i]


@njit(cache=True, nogil=True)
def encode_cells(cells: Any, column: int, hashes: Any, starts: Any, shift: int, offset: int) -> None:
    """Replace hashes that a slice of the sorted hashes has by `~id`; the slice begins at id `offset`."""
    first, last = hashes[0], hashes[-1]
    for i in range(cells.shape[0]):
        own = cells[i, column]
        if own < first or own > last:
            continue
        place = starts[(own - first) >> shift]
        while hashes[place] < own:
            place += 1
        if hashes[place] == own:
            cells[i, column] = ~(offset + place)


@njit(cache=True, nogil=True)
def hash_triples(triples: Any, n_entities: Any, n_relations: Any, keys: Any) -> None:
    """Fill a hash of each triple: a bijection while |E|²|R| stays below 2^64."""
    for i in range(triples.shape[0]):
        head, relation, tail = np.uint64(triples[i, 0]), np.uint64(triples[i, 1]), np.uint64(triples[i, 2])
        keys[i] = _mixed((head * np.uint64(n_relations) + relation) * np.uint64(n_entities) + tail)


@njit(cache=True, nogil=True)
def mark(triples: Any, entities: Any, relations: Any) -> None:
    """Set the bits of the entities and relations that some triples have; eight to a byte."""
    for i in range(triples.shape[0]):
        for column in range(3):
            bits, own = (relations if column == 1 else entities), triples[i, column]
            bits[own >> 3] |= np.uint8(1 << (own & 7))
