"""What cases are made of: hostile text, mutated bytes and mutated JSON, all from one `random.Random`."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

HOSTILE = (
    "", " ", "\t", "\n", "\r", "\r\n", "\0", "\x1b[31m", "\x1b]0;x\a", "\x9b31m", "\x7f", "\ufeff", "\u2028",
    "\u202e", "\u2066",
    "\ud800", "\U0010ffff", "é", "ﷺ", "👩‍👩‍👧", "nan", "NaN", "inf", "-inf", "1e999", "-1", "0", "1", "1.5",
    "0x10", "١",
    "?", "=cmd()", "+1", "-1+1", "@x", "[red]", "[link=http://x]y[/link]", "[/]", ":smile:", "{0}", "%s",
    "${x}", "$(x)", "`x`",
    "<script>", "</style>", "&amp;", '"', "'", '""', "\\", "\\u0000", "/", "..", "../..", "/etc/passwd",
    "C:\\x", "//x", "~", "\0x",
    "head", "relation", "tail", "label", "confidence", "None", "null", "true", "_:b1", "<a>", "http://x/",
    "urn:x", "a" * 300,
    "9" * 40, "1e308", "-0.0", "train", "geo", "geo-demo", "--help", "-", "--", "[", "]", "{", "}", ",", ";",
    "#", "@prefix",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 127, 128, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63,
    2**64, 10**12, 10**30,
    10**400, -(2**31), -(2**63), 0.0, -0.0, 0.5, 1.5, 1e-300, 1e300, 1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


def text(draw: random.Random) -> str:
    """Some text, hostile more often than not."""
    if draw.random() < 0.6:
        return "".join(draw.choice(HOSTILE) for _ in range(draw.choice((1, 1, 1, 2, 3))))
    return "".join(
        chr(draw.choice((draw.randrange(32, 127), draw.randrange(0x800), 0x4E2D))) for _ in range(draw.randrange(12))
    )


def scalar(draw: random.Random) -> Any:
    """A value that JSON may hold."""
    kind = draw.randrange(6)
    if kind < 2:
        return draw.choice(NUMBERS)
    if kind < 4:
        return text(draw)
    return draw.choice((None, True, False, [], {}, draw.randrange(-9, 99), draw.uniform(-9, 9)))


def anything(draw: random.Random, depth: int = 3) -> Any:
    """A JSON value of some depth; now and then one that is far too deep."""
    if draw.random() < 0.01:
        deep: Any = 0
        for _ in range(draw.choice((50, 400))):
            deep = [deep]
        return deep
    if depth == 0 or draw.random() < 0.5:
        return scalar(draw)
    size = draw.randrange(4)
    if draw.random() < 0.5:
        return [anything(draw, depth - 1) for _ in range(size)]
    return {text(draw): anything(draw, depth - 1) for _ in range(size)}


def mutated_json(draw: random.Random, value: Any) -> Any:
    """A copy of a JSON value with a few places changed, removed, doubled or swapped."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        value = _mutate_once(draw, value)
    return value


def _mutate_once(draw: random.Random, value: Any) -> Any:
    holder, key = _place(draw, value)
    if holder is None:
        return anything(draw)
    way, old = draw.randrange(7), holder[key]
    if way == 0:
        del holder[key]
    elif way == 1:
        holder[key] = anything(draw)
    elif way == 2:
        holder[key] = scalar(draw)
    elif way == 3 and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = draw.choice(
            (-old, old + 1, old * 1000, str(old), old * 0.5 if abs(old) < 2**60 else 0.5, [old], bool(old))
        )
    elif way == 3 and isinstance(old, str):
        holder[key] = draw.choice((old + text(draw), old[1:], old.upper(), [old], {"": old}, None))
    elif way == 4 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(draw.choice(holder)))
    elif way == 4:
        holder[text(draw)] = copy.deepcopy(old)
    elif way == 5 and isinstance(old, list):
        holder[key] = draw.choice((old[::-1], old * 2, old[:1], dict(enumerate(map(str, old))), [old]))
    else:
        other, place = _place(draw, value)
        holder[key] = copy.deepcopy(other[place]) if other is not None else None
    return value


def _place(draw: random.Random, value: Any) -> tuple[Any, Any]:
    """A random place of a tree: what holds it, and its key; (None, None) for the tree itself."""
    holder, key = None, None
    while isinstance(value, dict | list) and value and (holder is None or draw.random() < 0.7):
        holder = value
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        value = value[key]
    return holder, key


def as_json(draw: random.Random, value: Any) -> bytes:
    """A JSON value as bytes, at times with what JSON allows but few expect, or broken."""
    written = json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    chance = draw.random()
    if chance < 0.03:
        return draw.choice((b"\xef\xbb\xbf" + written, written.decode("utf-8", "replace").encode("utf-16"), b""))
    if chance < 0.05:
        return draw.choice((b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"-" + b"9" * 5000))
    return mutated_bytes(draw, written) if chance < 0.15 else written


def mutated_bytes(draw: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Bytes with a few of them flipped, put in, left out, doubled, cut off or taken from another file."""
    held = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(held) + 1)
        end = min(len(held), at + draw.choice((1, 1, 2, 4, 8, 64)))
        way = draw.randrange(9)
        if way == 0:
            held[at:end] = draw.randbytes(end - at)
        elif way == 1 and at < len(held):
            held[at] ^= 1 << draw.randrange(8)
        elif way == 2:
            del held[at:end]
        elif way == 3:
            held[at:at] = text(draw).encode("utf-8", "surrogatepass")
        elif way == 4:
            held[at:at] = held[at:end] * draw.choice((1, 2, 50))
        elif way == 5:
            del held[at:]
        elif way == 6:
            start = draw.randrange(len(other) + 1)
            held[at:at] = other[start : start + draw.choice((4, 64, 1024))]
        elif way == 7:
            held[at:end] = struct.pack(draw.choice("<>") + "q", draw.choice((0, 1, -1, 2**31, 2**62, 255)))[
                : max(1, end - at)
            ]
        else:
            held[at:end] = draw.choice((b"\t", b"\n", b"\r\n", b'"', b"\0", b"\xff", b",", b" "))
    return bytes(held)
