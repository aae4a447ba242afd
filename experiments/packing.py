"""Arrays behind figures, packed: only what a figure depends on, sorted, in the fewest bytes that recompute it.

The order of queries and triples changes no figure, so it is not kept. Ranks become counts of equal ranks: integers,
without loss. Triples are grouped by relation and label and sorted by their first score. Scores are float32 of which
the last bits may be dropped, 13 of 32 leaving the precision of float16: `dropped` says how many, by column. All
integers are written byte plane by byte plane, so that a general compressor sees bytes of one kind together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]

READINGS = {"filtered": ("better", "ties"), "raw": ("raw_better", "raw_ties")}
SPLITS = ("valid", "test", "rivals")
KNOBS = ("rivals", "tail_z", "head_z", "head_scores", "tail_scores", "logits")
"""What bits can be dropped of; rivals are all columns of that split."""
SIGNED, MASK = 1 << 31, (1 << 32) - 1
Dropped = Mapping[str, int]


def pack(arrays: Mapping[str, NDArray[Any]], dropped: Dropped) -> dict[str, Ints]:
    """Return named columns of integers from 0 to 2³²−1 that `unpack` makes the arrays of, less their order."""
    if "better" in arrays:
        return _pack_ranks(arrays)
    return {
        f"{split}_{name}": values
        for split in SPLITS
        if f"{split}_relations" in arrays
        for name, values in _pack_triples(_of_split(arrays, split), _bits(split, dropped)).items()
    }


def unpack(packed: Mapping[str, Ints], dropped: Dropped) -> Arrays:
    """Return the arrays of packed columns, in the order in which they were sorted."""
    if "filtered_count" in packed:
        return _unpack_ranks(packed)
    return {
        f"{split}_{name}": values
        for split in SPLITS
        if f"{split}_size" in packed
        for name, values in _unpack_triples(_of_split(packed, split), _bits(split, dropped)).items()
    }


def _bits(split: str, dropped: Dropped) -> Dropped:
    """Return the bits dropped of each column of a split."""
    return dict.fromkeys(KNOBS, dropped.get("rivals", 0)) if split == "rivals" else dropped


def _of_split(arrays: Mapping[str, NDArray[Any]], split: str) -> Arrays:
    return {name.removeprefix(f"{split}_"): values for name, values in arrays.items() if name.startswith(f"{split}_")}


def _pack_ranks(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Ints]:
    packed: dict[str, Ints] = {}
    for reading, (better, ties) in READINGS.items():
        n = len(arrays[better])
        is_head = np.arange(n) >= n // 2
        rows, counts = np.unique([is_head, arrays[better], arrays[ties]], axis=1, return_counts=True)
        columns = {"is_head": rows[0], "better": _steps(rows[1]), "ties": rows[2], "count": counts}
        packed |= {f"{reading}_{name}": column.astype(np.int64) for name, column in columns.items()}
    return packed


def _unpack_ranks(packed: Mapping[str, Ints]) -> Arrays:
    arrays: Arrays = {}
    for reading, (better, ties) in READINGS.items():
        counts = packed[f"{reading}_count"]
        arrays[better] = np.repeat(_sums(packed[f"{reading}_better"]), counts)
        arrays[ties] = np.repeat(packed[f"{reading}_ties"], counts)
    return arrays


def _pack_triples(arrays: Arrays, dropped: Dropped) -> dict[str, Ints]:
    """Group by relation, sign and correlation, sort, and drop bits; the head's score is told by its difference."""
    n = len(arrays["relations"])
    signs = arrays.get("signs", np.zeros(n))
    correlations = arrays.get("correlations", np.zeros(n))
    if "tail_scores" in arrays:
        arrays = arrays | {"head_scores": arrays["tail_scores"] - arrays["head_scores"]}
    columns = {name: _ordered(values, dropped.get(name, 0)) for name, values in arrays.items() if _is_score(name)}
    of_group = [arrays["relations"].astype(np.int64), signs.astype(np.int64), _ordered(correlations, 0)]
    order = np.lexsort([*reversed(columns.values()), *reversed(of_group)])
    groups, sizes = np.unique(of_group, axis=1, return_counts=True)
    packed = dict(zip(("relation", "sign", "correlation", "size"), [*groups, sizes], strict=True))
    packed["sign"] = packed["sign"] + 1
    for place, (name, values) in enumerate(columns.items()):
        packed[name] = _steps(values[order]) if place == 0 else values[order]
    return packed


def _unpack_triples(packed: Mapping[str, Ints], dropped: Dropped) -> Arrays:
    sizes = packed["size"]
    arrays: Arrays = {"relations": np.repeat(packed["relation"], sizes)}
    if (packed["sign"] != 1).any():  # 1 stands for 0: no labels
        arrays["signs"] = np.repeat(packed["sign"] - 1, sizes)
    scores = [name for name in packed if _is_score(name)]
    for place, name in enumerate(scores):
        arrays[name] = _floats(_sums(packed[name]) if place == 0 else packed[name], dropped.get(name, 0))
    if "tail_scores" in arrays:
        arrays["head_scores"] = arrays["tail_scores"] - arrays["head_scores"]
    if "tail_z" in arrays:
        arrays["correlations"] = np.repeat(_floats(packed["correlation"], 0), sizes)
    return arrays


def _is_score(name: str) -> bool:
    return name.endswith(("logits", "scores", "_z"))


def _ordered(values: NDArray[Any], drop: int) -> Ints:
    """Return float32 as integers of the same order, their last bits dropped."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.int64)
    return np.asarray(np.where(bits < SIGNED, bits + SIGNED, 2 * SIGNED - 1 - bits) >> drop)


def _floats(ordered: Ints, drop: int) -> NDArray[np.float64]:
    """Return the middle of the numbers that an integer of `_ordered` stands for."""
    whole = (ordered << drop) + ((1 << drop) >> 1)
    bits = np.where(whole >= SIGNED, whole - SIGNED, 2 * SIGNED - 1 - whole)
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def _steps(values: Ints) -> Ints:
    """Return differences of neighbours, modulo 2³²."""
    before = np.zeros(len(values), dtype=np.int64)
    before[1:] = values[:-1]
    return np.asarray((values - before) & MASK)


def _sums(steps: Ints) -> Ints:
    return np.asarray(np.cumsum(steps, dtype=np.int64) & MASK)


def to_bytes(columns: Mapping[str, Ints]) -> tuple[list[tuple[str, int, int]], bytes]:
    """Return the layout (name, length, bytes per integer) of columns, and their byte planes, low bytes first."""
    layout, parts = [], []
    for name, values in columns.items():
        width = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
        layout.append((name, len(values), width))
        parts += [((values >> 8 * plane) & 255).astype(np.uint8).tobytes() for plane in range(width)]
    return layout, b"".join(parts)


def from_bytes(layout: Sequence[Sequence[Any]], data: bytes) -> dict[str, Ints]:
    """Return the columns that `to_bytes` wrote."""
    columns, start = {}, 0
    for name, length, width in layout:
        planes = np.frombuffer(data, np.uint8, length * width, start).reshape(width, length).astype(np.int64)
        columns[name] = np.asarray((planes << 8 * np.arange(width)[:, None]).sum(0))
        start += length * width
    if start != len(data):
        raise ValueError(f"expected {start} bytes of columns, found {len(data)}")
    return columns
