"""The gate before every request: host, token, size and time; headers on every answer, and counts of them."""

from __future__ import annotations

import hmac
import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from staypositive.service.limits import Limits

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN_PATHS = frozenset({"/", "/docs", "/health", "/ready"})  # without a token: the page holds nothing of the run
SINGLE = ("host", "content-length", "content-type", "transfer-encoding", "authorization")  # ambiguous if repeated
CLOSE = {"connection": "close"}
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS, SECONDS = "staypositive_requests_total", "staypositive_request_seconds"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def failure(
    status: int, code: str, message: str, suggestions: Collection[str] = (), headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error in the shape that all errors have."""
    body = {"error": {"code": code, "message": message, "suggestions": list(suggestions)}}
    return JSONResponse(body, status, headers)


@dataclass
class Guard:
    """ASGI middleware, outermost: nothing behind it sees a request that it refuses."""

    app: ASGIApp
    limits: Limits
    metrics: Metrics
    token: str | None
    hosts: Collection[str]
    paths: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began, body = 0, time.perf_counter(), Body(receive, self.limits.body_bytes)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "cache-control": "no-store"}.items():
                    headers.setdefault(name, value)
            await send(message)

        self.metrics.in_flight += 1
        try:
            answer: ASGIApp = self._refusal(scope) or self.app
            with anyio.fail_after(self.limits.seconds):
                await answer(scope, body.receive, sending)
        except TimeoutError:
            if not status:  # else the client takes its answer too slowly: the server lets go of it
                await _late(self.limits.seconds, body.is_late)(scope, receive, sending)
        except Exception:
            if status:
                raise
            log.exception("request failed: %s", scope["path"])
            said = "something broke here; the server's log says what"
            await failure(500, "internal", said)(scope, receive, sending)
        finally:
            self.metrics.in_flight -= 1
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.record(path, status or 500, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Return the answer to a request that may not come in."""
        path, headers, most = scope["path"], Headers(scope=scope), self.limits.body_bytes
        for name in SINGLE:  # two readers could understand such a request in two ways
            if len(headers.getlist(name)) > 1:
                said = f"the header {name} came more than once; send it once"
                return failure(400, "bad_request", said, headers=CLOSE)
        if scope["http_version"] != "1.0" and not headers.get("host"):
            return failure(400, "bad_request", "the header host is missing; send it once", headers=CLOSE)
        if self.token is None and _name(headers.get("host", "")) not in self.hosts:  # a rebound name, in a browser
            return failure(421, "host", "this service answers to its own address only")
        if self.token is not None and path not in OPEN_PATHS and not path.startswith("/assets/"):
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
                said = "this service needs a token: Authorization: Bearer TOKEN"
                return failure(401, "token", said, headers={"www-authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 18 or int(length) > most):
            return failure(413, "too_large", _too_large(most))
        return None


class Body:
    """A request's body as it comes: no more than the limit of it, whatever its headers say."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._left = receive, most, most
        self._is_whole, self.is_late = False, False

    async def receive(self) -> Message:
        self.is_late = not self._is_whole  # until it has come
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        self._is_whole, self.is_late = not message.get("more_body", False), False
        if self._left < 0:
            raise HTTPException(413, _too_large(self._most))
        return message


def _late(seconds: float, by_client: bool) -> JSONResponse:
    """Return the answer to a request whose time is over, which is the client's fault if its body was waited for."""
    if by_client:
        return failure(408, "slow", f"the body did not come within {seconds:g} seconds", headers=CLOSE)
    return failure(504, "timeout", f"this took longer than {seconds:g} seconds; ask for less")


def _name(host: str) -> str:
    """Return a Host header without its port.

    >>> _name("[::1]:8000"), _name("localhost:80"), _name("Example.org")
    ('[::1]', 'localhost', 'example.org')
    """
    bare, colon, port = host.rpartition(":")
    return (bare if colon and port.isdecimal() else host).lower()


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit:,} bytes; send it in parts"


class Metrics:
    """Requests by path and status, and how long they took. Paths are those that exist; all others are `other`."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def record(self, path: str, status: int, seconds: float) -> None:
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
