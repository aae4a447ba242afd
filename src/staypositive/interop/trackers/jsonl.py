"""A file of JSON lines: `start`, one `epoch` each, `end`. Each line is flushed, so that others can follow it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from staypositive.files import open_plain
from staypositive.interop.trackers.tracker import Facts, Tracker


class JsonLines(Tracker):
    """Appends to a file; a second training in the same file begins with its own `start`."""

    def __init__(self, path: Path, about: Facts) -> None:
        super().__init__(about)
        self.path = path

    def open(self, epochs: int) -> None:
        """Open the file and say what is trained."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_plain(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._stream = os.fdopen(handle, "a", encoding="utf-8")
        self._line({"event": "start", "epochs": epochs, **self.about})

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Write a line for the epoch."""
        self._line({"event": "epoch", "epoch": epoch, **numbers})

    def finish(self, result: Facts, went_well: bool) -> None:
        """Write the last line."""
        self._line({"event": "end", "went_well": went_well, **result})
        self._stream.close()

    def _line(self, values: dict[str, Any]) -> None:
        self._stream.write(json.dumps(values, ensure_ascii=False) + "\n")
        self._stream.flush()
