"""When memory runs out: one clear error, whoever noticed it first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from staypositive.errors import ShortOfMemoryError

_SAYINGS = ("not enough memory", "can't allocate memory", "out of memory", "cannot allocate memory")


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short: Python's and numpy's, torch's on the CPU, or CUDA's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(saying in str(error).lower() for saying in _SAYINGS)


@contextmanager
def advising(doing: str, advice: str) -> Iterator[None]:
    """Turn an error that says that memory is short into one that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ShortOfMemoryError) or not ran_out_of_memory(error):
            raise
        raise ShortOfMemoryError(f"memory ran out while {doing}; {advice}") from error
