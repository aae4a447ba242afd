"""What one request may ask for: every bound of the service, in one place."""

from __future__ import annotations

import math
import time
from contextvars import ContextVar
from dataclasses import dataclass

MOST_LABEL = 1000  # characters of a label
MOST_TOP = 1000  # answers of one query
MOST_QUERIES = 1000  # queries or triples of one batch
MOST_ROWS = 50_000  # answers of one batch: queries × top
MOST_QUICK = 2_000  # answers of a batch that waits with single questions; larger ones wait with long work
MOST_CANDIDATES = 10_000  # labels that answers are chosen from
MOST_SUPPORT = 100  # supporting facts of one triple
MOST_NEIGHBOURS = 60
MOST_RELATIONS = 20  # relations of one discovery
MOST_PAIRS = 50_000_000  # pairs of domain × range that one discovery may judge
MOST_HEAD = 2**16  # bytes of a request's head
DEADLINE: ContextVar[float] = ContextVar("DEADLINE", default=math.inf)  # of the request that is being answered


@dataclass(frozen=True)
class Limits:
    """What the operator may set."""

    body_bytes: int = 2**20  # size of a request's body
    seconds: float = 30.0  # from a request's first byte to its answer
    waiting: int = 512  # requests that may wait for the model; more are told to come back
    connections: int = 900  # more are told to come back; most systems let a process have 1,024 files
    idle_seconds: float = 30.0  # from connecting, or from an answer, to the whole head of the next request


def stop_if_late(_: int = 0) -> None:
    """Stop long work between two pieces of it once its time is over: a progress callback."""
    if time.monotonic() > DEADLINE.get():
        raise TimeoutError
