"""The command line with an accident: process 1 is killed at the start of an epoch, as DYING says for each life.

Run by torchrun: `DYING=3,5 dying.py train ...` dies in epoch 3, and after a restart in epoch 5.
"""

from __future__ import annotations

import os
import signal

from torch import Tensor

from staypositive.__main__ import main
from staypositive.training import SteppedEngine


def dying() -> int:
    """Return the epoch that this life ends in."""
    return int(os.environ["DYING"].split(",")[int(os.environ["TORCHELASTIC_RESTART_COUNT"])])


def run_epoch(self: SteppedEngine) -> list[dict[str, Tensor]]:
    if os.environ["RANK"] == "1" and self.steps == (dying() - 1) * self.batches:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole_epoch(self)


if __name__ == "__main__":
    whole_epoch = SteppedEngine.run_epoch
    SteppedEngine.run_epoch = run_epoch  # type: ignore[method-assign]
    main()
