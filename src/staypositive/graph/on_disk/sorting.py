"""The last pass: triples in the order of their keys, each once, some of them held out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.on_disk.arrays import GrowingArray
from staypositive.graph.on_disk.encoding import triple_keys
from staypositive.graph.on_disk.job import Job, Sizes
from staypositive.graph.on_disk.spill import Spill

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)
"""How many bits of a byte are set."""


def sort(job: Job, spill: Spill, sizes: Sizes, hold_out: int) -> dict[str, int]:
    """Write train, valid and test; return how many each has, and how many entities and relations no triple has.

    The first triples by key are held out, unless that would leave an entity or a relation without any in train.
    """
    from staypositive.graph.on_disk import kernels

    bits = [np.zeros(size // 8 + 1, dtype=np.uint8) for size in sizes]
    held = np.empty((0, 3), dtype=sizes.dtype)
    with GrowingArray(job.folder / "train.npy", sizes.dtype, 3) as train:
        with job.progress("sorting", len(spill)) as advance:
            for part in range(len(spill)):
                triples = _distinct(spill.take(part, sizes.dtype).reshape(-1, 3), sizes)
                more = 2 * hold_out - len(held)
                held, triples = np.concatenate([held, triples[:more]]), triples[more:]
                kernels.mark(triples, *bits)
                train.append(triples)
                advance(1)
        half = (train.length + len(held)) // 2  # of more, nothing would be left to learn from
        held, back = held[:half], held[half:]
        kernels.mark(back, *bits)
        train.append(back)
        seen = _are_marked(bits[0], held[:, [0, 2]]).all(1) & _are_marked(bits[1], held[:, 1])
        train.append(held[~seen])
    kernels.mark(held[~seen], *bits)
    valid, test = np.array_split(held[seen], 2)
    np.save(job.folder / "valid.npy", valid, allow_pickle=False)
    np.save(job.folder / "test.npy", test, allow_pickle=False)
    entities, relations = (size - int(_ONES[own].sum()) for size, own in zip(sizes, bits, strict=True))
    held_out = {"valid": len(valid), "test": len(test)}
    return {"train": train.length, **held_out, "unused_entities": entities, "unused_relations": relations}


def _distinct(triples: NDArray[Any], sizes: Sizes) -> NDArray[Any]:
    """Return triples by key, each once."""
    keys = triple_keys(triples, sizes)
    order = np.argsort(keys)
    keys, triples = keys[order], triples.take(order, axis=0)
    alike = np.flatnonzero(keys[1:] == keys[:-1])
    copies = alike[(triples[alike] == triples[alike + 1]).all(1)]
    return np.delete(triples, copies, axis=0) if len(copies) else triples


def _are_marked(bits: NDArray[np.uint8], ids: NDArray[Any]) -> NDArray[np.bool_]:
    marked: NDArray[np.bool_] = (bits[ids >> 3] >> (ids & 7).astype(np.uint8) & 1).astype(bool)
    return marked
