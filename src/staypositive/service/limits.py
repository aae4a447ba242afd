"""What one request may ask for: every bound of the service, in one place."""

from __future__ import annotations

from dataclasses import dataclass

MOST_LABEL = 1000
"""Characters of a label."""
MOST_TOP = 1000
"""Answers of one query."""
MOST_QUERIES = 1000
"""Queries or triples of one batch."""
MOST_ROWS = 50_000
"""Answers of one batch: queries × top."""
MOST_QUICK = 2_000
"""Answers of a batch that goes the way of single questions; larger ones wait with long work, and hold nobody up."""
MOST_CANDIDATES = 10_000
MOST_SUPPORT = 100
MOST_NEIGHBOURS = 60
MOST_RELATIONS = 20
"""Relations of one discovery."""
MOST_PAIRS = 50_000_000
"""Pairs of domain × range that one discovery may judge."""
MOST_SAMPLES = 100_000
"""Triples that a census draws of each relation."""
MOST_SCORED = 20_000_000
"""Triples that a census draws in all."""
MOST_HEAD = 2**16
"""Bytes of a request's head."""


@dataclass(frozen=True)
class Limits:
    """What the operator may set."""

    body_bytes: int = 2**20
    """Size of a request's body."""
    seconds: float = 30.0
    """Time from a request's first byte to its answer."""
    waiting: int = 512
    """Requests that may wait for the model; more are told to come back."""
    connections: int = 900
    """Open connections; more are told to come back. Most systems let a process have 1,024 files."""
    idle_seconds: float = 30.0
    """Time from one answer to the whole head of the next request, and from connecting to that of the first."""
