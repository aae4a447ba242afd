"""What a search over the whole graph has found so far, kept on disk, so that a search that was stopped resumes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.inference.discovery import Discovery
from staypositive.inference.ordering import best_first
from staypositive.inference.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["head", "relation", "tail", "probability", "score"]


class PartialDiscovery:
    """What was found of each relation: in memory, or in a folder, from which a search for the same thing resumes.

    `asked` says what is searched for; results of another search are removed.
    """

    def __init__(self, folder: Path | None, asked: dict[str, Any]) -> None:
        self.folder, self.asked = folder, json.loads(json.dumps(asked))
        self.found: dict[int, Discovery] = {}
        if self.folder is not None:
            self._resume(self.folder)

    def add(self, found: Discovery) -> None:
        """Keep what a relation has."""
        self.found[found.relation] = found
        if self.folder is not None:
            rows = np.column_stack([found.triples, found.scores, found.logits])  # ids fit in 64-bit floats
            write_atomic(self.folder / f"{found.relation}.bin", rows.astype("<f8").tobytes())

    def remove(self) -> None:
        """Remove the partial results; other files in their folder stay."""
        if self.folder is not None:
            self._clear(self.folder)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _resume(self, folder: Path) -> None:
        if folder.is_symlink():
            raise InputError(f"{folder} is a link, and nothing is written to linked folders; remove it")
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "asked.json"
        try:
            if note in _own(folder, r"asked\.json") and json.loads(note.read_bytes()) == self.asked:
                self.found = {int(path.stem): _read(path) for path in _own(folder, r"\d+\.bin")}
                return
        except (OSError, ValueError, RecursionError):  # none yet, or not as we write them
            pass
        self._clear(folder)
        write_atomic(note, json.dumps(self.asked))

    @staticmethod
    def _clear(folder: Path) -> None:
        for path in _own(folder, r"asked\.json|\d+\.bin|\..*\.part"):
            path.unlink()


def _read(path: Path) -> Discovery:
    rows = np.frombuffer(path.read_bytes(), dtype="<f8").reshape(-1, 5)
    return Discovery(int(path.stem), rows[:, :3].astype(np.int64), rows[:, 3], rows[:, 4])


def _own(folder: Path, names: str) -> list[Path]:
    """Return the plain files of some names in a folder."""
    found = (path for path in folder.iterdir() if re.fullmatch(names, path.name))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def discovery_table(
    predictor: Predictor, found: Iterable[Discovery], prior: float | None = None, top: int | None = None
) -> pd.DataFrame:
    """Return by label what was found, with probability and score, or the `top` best of it, most likely first."""
    whole = [Discovery.nothing(0), *found]
    triples, scores, logits = (
        np.concatenate([getattr(part, name) for part in whole]) for name in ("triples", "scores", "logits")
    )
    order = best_first(logits, scores, triples)[:top]
    rows = np.column_stack([np.zeros_like(order), np.arange(len(order)), triples[order]])
    table: pd.DataFrame = predictor.table(rows, scores[order], prior)[COLUMNS]
    return table
