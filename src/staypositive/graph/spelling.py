"""Labels spelt like another one: what was probably meant, without comparing each label letter by letter."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

BINS = 32
COMPARED = 64
"""Labels compared letter by letter, the most promising ones."""
CUTOFF = 0.6


class Spelling:
    """Labels by how often each letter is in them: two that share few letters cannot be spelt alike."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels: dict[str, str] = {}
        for label in labels:
            self.labels.setdefault(label.casefold(), label)
        self.folded = list(self.labels)
        coded = [label.encode("utf-8", "replace") for label in self.folded]
        self.lengths = np.fromiter(map(len, coded), dtype=np.int64, count=len(coded))
        letters = np.frombuffer(b"".join(coded), dtype=np.uint8) % BINS
        rows = np.repeat(np.arange(len(coded)), self.lengths)
        counts = np.bincount(rows * BINS + letters, minlength=len(coded) * BINS)
        self.counts = np.minimum(counts, 255).astype(np.uint8).reshape(-1, BINS)

    def nearest(self, label: str, most: int) -> list[str]:
        """Return up to `most` labels spelt like this one, whatever the case; a longer name may begin with it."""
        wanted = label.casefold()
        begins = sorted((known for known in self.folded if wanted and known.startswith(wanted)), key=len)
        close = difflib.get_close_matches(wanted, self._promising(wanted), n=most, cutoff=CUTOFF)
        return [self.labels[known] for known in dict.fromkeys([*close[:1], *begins[:2], *close, *begins])][:most]

    def _promising(self, wanted: str) -> list[str]:
        """Return the labels that share most letters with a text: twice those over both lengths bounds likeness."""
        coded = np.frombuffer(wanted.encode("utf-8", "replace"), dtype=np.uint8)
        own = np.minimum(np.bincount(coded % BINS, minlength=BINS), 255).astype(np.uint8)
        shared = np.minimum(self.counts, own).sum(axis=1, dtype=np.int64)
        bound = 2 * shared / np.maximum(self.lengths + len(coded), 1)
        best = np.argsort(-bound, kind="stable")[:COMPARED]
        return [self.folded[place] for place in best[bound[best] >= CUTOFF].tolist()]
