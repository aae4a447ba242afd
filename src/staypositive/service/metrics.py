"""Counts and times of requests in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS, SECONDS = "staypositive_requests_total", "staypositive_request_seconds"


class Metrics:
    """Requests by path and status, and how long they took. Paths are those that exist; all others are `other`."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def record(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests[path, status] += 1
        self._times[path][bisect_left(BOUNDS, seconds)] += 1
        self._seconds[path] += seconds

    def text(self, gauges: Iterable[tuple[str, str, str, float]] = ()) -> str:
        """Return all counts, and gauges given as (name, kind, help, value)."""
        lines = _header(REQUESTS, "counter", "Requests answered.")
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'{REQUESTS}{{path="{path}",status="{status}"}} {count}')
        lines += _header(SECONDS, "histogram", "Time from request to answer.")
        for path, counts in sorted(self._times.items()):
            for bound, total in zip((*BOUNDS, "+Inf"), accumulate(counts), strict=True):
                lines.append(f'{SECONDS}_bucket{{path="{path}",le="{bound}"}} {total}')
            lines.append(f'{SECONDS}_sum{{path="{path}"}} {self._seconds[path]:.6f}')
            lines.append(f'{SECONDS}_count{{path="{path}"}} {sum(counts)}')
        in_flight = ("staypositive_requests_in_flight", "gauge", "Requests being answered.", self.in_flight)
        for name, kind, text, value in (in_flight, *gauges):
            lines += [*_header(name, kind, text), f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _header(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
