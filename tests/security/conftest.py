"""A run whose labels do their worst."""

from __future__ import annotations

from pathlib import Path

import pytest

import staypositive as sp
from graphs import encode

HOSTILE = (
    "\x1b[31mred\x1b[0m", "\x1b]8;;http://x\x07link", "\x9b2J", "bell\x07", "back\x08\x08", "line\nfeed",
    "carriage\rreturn",
    "\u202eevil", "\u2066isolate", "\u2028separated", "[red]markup[/red]", "[link=http://x]y[/link]", "[/]",
    "tail\\", ":smile:",
    "=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "\tTab", "\rReturn", "＝1", '"quoted"', "comma, and\ttab",
    "<script>hit()</script>",
    '"><img src=x onerror=hit()>', "</style></title>", "javascript:hit()", "&lt;", "{{7*7}}", "${x}", "%s%n",
    "../../etc/passwd",
    "nan", "NULL", "_:b1", '"lit\\q"', "http://x/> <y", "\U000e0041tag", "null\0byte",
)  # fmt: skip


@pytest.fixture(scope="session")
def hostile_run() -> sp.Run:
    """A run on a ring of hostile entities with hostile relations."""
    relations = ("=r()", "\x1b[1mr", "<b>r</b>")
    around = [
        (HOSTILE[i], relations[i % 3], HOSTILE[(i + step) % len(HOSTILE)])
        for i in range(len(HOSTILE))
        for step in (1, 2, 3)
    ]
    parts = {"train": tuple(zip(*around, strict=True)), "valid": tuple(zip(*around[::2], strict=True)),
             "test": tuple(zip(*around[::3], strict=True))}  # fmt: skip
    run = sp.fit(encode("\x1b[7m<i>evil</i>\u202e", parts, {}), model="distmult", dim=4, epochs=2, batch_size=32)
    run.calibrate("posterior")
    return run


@pytest.fixture(scope="session")
def hostile_folder(hostile_run: sp.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_run.save(tmp_path_factory.mktemp("hostile") / "run")
