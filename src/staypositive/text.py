"""Text from outside, made safe to show: a label is data, in which a terminal must not find control codes."""

from __future__ import annotations

import json
import re
from typing import Any

_ORDERS = "\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
"""Delete and C1, line ends, directions, annotations, tags, halves of characters: nothing that can be seen.

Marks of a character's own direction, and joiners, which scripts and emoji need, are not among them.
"""
_HIDDEN = re.compile(f"[\x00-\x1f{_ORDERS}]")
_HIDDEN_IN_JSON = re.compile(f"[{_ORDERS}]")


def visible(text: str) -> str:
    r"""Return text with control characters spelt out; what can be seen stays as it is.

    >>> print(visible("red \x1b[31m alert\n"))
    red \x1b[31m alert\n
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


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
