"""Finding labels by what a person types of them: case and accents do not matter."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

MOST_LOOKED_AT = 5000
"""Matches that are ranked; a text that more labels hold is too short to rank them all at each key."""

_PLACES = (r"\n", r"(?<=[^\w\n])", r"(?<=\w)")
"""Where the text stands in a label, best first: at its beginning, at that of a word, inside a word."""


def fold(text: str) -> str:
    """Return a text without case and accents.

    >>> fold("Åland ISLANDS")
    'aland islands'
    """
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return bare.casefold().replace("\n", " ")


class LabelSearch:
    """Labels in one long text, so that a search is one scan, with weights that break ties (the largest first)."""

    def __init__(self, labels: Sequence[str], weights: Sequence[float] | None = None) -> None:
        folded = [fold(label) for label in labels]
        self._text = "\n" + "\n".join(folded) + "\n"
        self._starts = list(accumulate((len(label) + 1 for label in folded), initial=1))[:-1]
        self._lengths = [len(label) for label in folded]
        self._weights = [0.0] * len(folded) if weights is None else list(weights)

    def find(self, typed: str, most: int = 10) -> list[int]:
        """Return ids of labels that hold the text: equal ones first, then those that begin so, then a word that does.

        >>> LabelSearch(["New York", "York", "Yorkshire", "Cork"]).find("york")
        [1, 2, 0]
        """
        wanted = fold(typed).strip()
        if not wanted:
            return []
        found: dict[int, tuple[int, float, int]] = {}
        for kind, before in enumerate(_PLACES):
            for match in re.finditer(before + re.escape(wanted), self._text):
                place = bisect_right(self._starts, match.end() - len(wanted)) - 1
                equal = kind == 0 and self._lengths[place] == len(wanted)
                found.setdefault(place, (-1 if equal else kind, -self._weights[place], self._lengths[place]))
                if len(found) >= MOST_LOOKED_AT:
                    break
            if len(found) >= most:
                break  # what comes later in a label ranks lower
        return sorted(found, key=found.__getitem__)[:most]
