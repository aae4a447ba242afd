"""Cases, one after another: each is a function of target, seed and number, so that any can be had again."""

from __future__ import annotations

import random
import signal
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from staypositive.errors import StayPositiveError

SECONDS = 120
"""A case that takes longer hangs: most take milliseconds, but a busy machine has its pauses."""


class Target(ABC):
    """What is fuzzed: made once with a folder of its own, then given a source of chance for each case."""

    @abstractmethod
    def __init__(self, folder: Path) -> None: ...

    @abstractmethod
    def case(self, draw: random.Random) -> str:
        """Run one case and return how it went; anything wrong is an exception."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of what is held."""


class UnnamedError(AssertionError):
    """An error of ours that does not say what it should."""


class CrashError(Exception):
    """A case that went wrong, and how to have it again."""


def named_refusal(error: StayPositiveError, *names: str) -> str:
    """Return how a refusal is counted; its message must name the file that it is about."""
    if not any(name in str(error) for name in names):
        raise UnnamedError(f"{type(error).__name__} does not name {' or '.join(names)}: {error}") from error
    return f"refused: {type(error).__name__}"


def run_cases(
    name: str,
    target: Target,
    cases: int,
    seed: int = 0,
    start: int = 0,
    progress: Callable[[int, Counter[str]], Any] | None = None,
) -> Counter[str]:
    """Run cases start, start + 1, ...; count how they went, and stop at the first that went wrong."""
    outcomes: Counter[str] = Counter()
    for number in range(start, start + cases):
        try:
            with _deadline(SECONDS), _strict():
                outcomes[target.case(random.Random(f"{name}/{seed}/{number}"))] += 1
        except Exception as error:
            again = f"python scripts/fuzz.py {name} --seed {seed} --start {number} --cases 1"
            raise CrashError(f"{again}\n{traceback.format_exc()}") from error
        if progress is not None and (number + 1 - start) % 1000 == 0:
            progress(number + 1 - start, outcomes)
    return outcomes


@contextmanager
def _strict() -> Iterator[None]:
    """A warning that comes of the package's own code is as unwanted as an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="staypositive")
        yield


@contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    """Raise in the main thread when the time is over, where the system can."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def late(*_: Any) -> None:
        raise TimeoutError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
