"""Counts and times of requests in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Requests by path and status, and how long they took. Paths are those that exist; all others are `other`."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def record(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests[path, status] += 1
        self._times[path][bisect_left(BOUNDS, seconds)] += 1
        self._seconds[path] += seconds

    def text(self, gauges: Iterable[tuple[str, str, str, float]] = ()) -> str:
        """Return all counts, and gauges given as (name, kind, help, value)."""
        lines = [
            "# HELP staypositive_requests_total Requests answered.",
            "# TYPE staypositive_requests_total counter",
        ]
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'staypositive_requests_total{{path="{path}",status="{status}"}} {count}')
        name = "staypositive_request_seconds"
        lines += [f"# HELP {name} Time from request to answer.", f"# TYPE {name} histogram"]
        for path, counts in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f'{name}_bucket{{path="{path}",le="{bound}"}} {total}')
            lines += [
                f'{name}_sum{{path="{path}"}} {self._seconds[path]:.6f}',
                f'{name}_count{{path="{path}"}} {total}',
            ]
        in_flight = ("staypositive_requests_in_flight", "gauge", "Requests being answered.", self.in_flight)
        for gauge, kind, text, value in (in_flight, *gauges):
            lines += [f"# HELP {gauge} {text}", f"# TYPE {gauge} {kind}", f"{gauge} {value:g}"]
        return "\n".join(lines) + "\n"
