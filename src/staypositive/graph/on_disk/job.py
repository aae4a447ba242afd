"""What all passes of an ingestion know: where they work, within what memory, and whom they tell of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], Any]]]
"""Called with what is done and how much there is of it; gives what is told of each piece."""

MOST_PIECE = 1 << 24
COLUMNS = {"entity": (0, 2), "relation": (1,)}
"""Which columns of a triple have labels of a kind."""
CELLS = "cells.npy"
"""Hashes or ids of all triples, 8 bytes each, between the passes."""


class Sizes(NamedTuple):
    """How many there are of each."""

    entities: int
    relations: int

    @property
    def dtype(self) -> str:
        """How ids are kept."""
        return "<i4" if max(self) < 2**31 else "<i8"


@dataclass(frozen=True)
class Job:
    """A folder to work in, a ceiling of memory in bytes, and a progress bar."""

    folder: Path
    memory: int
    progress: Progress

    @property
    def piece(self) -> int:
        """Bytes that are taken at once."""
        return min(MOST_PIECE, self.memory // 64)


@contextmanager
def silent(what: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show nothing."""
    yield lambda done: None
