"""Text from outside, made fit to be shown: labels are data, which no terminal or page may take for orders."""

from __future__ import annotations

import io
import json
import re
from typing import Any, TextIO

_ORDERS = "\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
"""Delete and C1, line ends, directions, annotations, tags, halves of characters: none of them is ink.

Marks that only say which way a character leans, and joiners, which scripts and emoji need, are not among them.
"""
_HIDDEN = re.compile(f"[\x00-\x1f{_ORDERS}]")
_HIDDEN_IN_JSON = re.compile(f"[{_ORDERS}]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    r"""Return text with control characters and orders to the display spelt out; what can be seen stays as it is.

    >>> print(visible("red \x1b[31m alert\n"))
    red \x1b[31m alert\n
    """
    return _HIDDEN.sub(_spelt, text)


def visible_json(value: Any) -> str:
    r"""Return a value as JSON that a terminal shows as it is; the same value is read from it again.

    >>> print(visible_json(["é", "\u202e"]))
    [
     "é",
     "\u202e"
    ]
    """
    written = json.dumps(value, indent=1, ensure_ascii=False)
    return _HIDDEN_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], written)


def spell_out_unprintable(*streams: TextIO | None) -> None:
    """Let output streams write what their encoding lacks as `visible` would, where they would fail otherwise."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in _SHORT:
        return _SHORT[found[0]]
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"
