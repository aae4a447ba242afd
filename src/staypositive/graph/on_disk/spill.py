"""Pieces of work put aside by part, in memory while it lasts and else in files, and read back part by part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Spill:
    """Bytes by part; written out whenever so many are held."""

    def __init__(self, folder: Path, name: str, parts: int, most: int) -> None:
        self.folder, self.name, self.most = folder, name, most
        self.pieces: list[list[bytes]] = [[] for _ in range(parts)]
        self.held = 0

    def __len__(self) -> int:
        return len(self.pieces)

    def put(self, rows: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Put rows aside that lie part by part, each part up to its end."""
        first = 0
        for part, end in enumerate(ends.tolist()):
            if end > first:
                self.pieces[part].append(rows[first:end].tobytes())
            first = end
        self.held += rows.nbytes
        if self.held > self.most:
            self._flush()

    def take(self, part: int, dtype: Any) -> NDArray[Any]:
        """Return all that was put aside for a part, and forget it."""
        path = self._path(part)
        kept = [path.read_bytes()] if path.exists() else []
        path.unlink(missing_ok=True)
        data = b"".join([*kept, *self.pieces[part]])
        self.pieces[part] = []
        return np.frombuffer(data, dtype=dtype)

    def _flush(self) -> None:
        for part, pieces in enumerate(self.pieces):
            if pieces:
                with self._path(part).open("ab") as stream:
                    stream.writelines(pieces)
        self.pieces, self.held = [[] for _ in self.pieces], 0

    def _path(self, part: int) -> Path:
        return self.folder / f"{self.name}.{part}"
