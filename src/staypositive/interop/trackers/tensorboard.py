"""TensorBoard: scalars by epoch and the settings as text, through torch's writer (needs `tensorboard`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from staypositive.errors import InputError
from staypositive.interop.trackers.tracker import Facts, Tracker, flat


class TensorBoard(Tracker):
    """Writes event files to a folder: `tensorboard --logdir FOLDER` shows them."""

    def __init__(self, folder: Path, about: Facts) -> None:
        super().__init__(about)
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            raise InputError("this tracker needs tensorboard: pip install 'staypositive[track]'") from None
        self.folder = folder

    def open(self, epochs: int) -> None:
        """Open the writer and put the settings down as a table."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.folder))
        rows = [f"| {name} | {json.dumps(value, ensure_ascii=False)} |" for name, value in flat(self.about).items()]
        self._writer.add_text("about", "\n".join(["| setting | value |", "| :-- | :-- |", *rows]))

    def write(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Write each number as a scalar."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def finish(self, result: Facts, went_well: bool) -> None:
        """Write the result as text, and close."""
        self._writer.add_text("result", json.dumps(dict(result)))
        self._writer.close()
