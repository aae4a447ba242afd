"""The gate before every request: host, token, size and time; and the headers on every answer."""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Collection

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from staypositive.service.limits import Limits
from staypositive.service.metrics import Metrics

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN_PATHS = frozenset({"/", "/docs", "/health", "/ready"})
"""What needs no token: the page itself holds nothing of the run."""
SINGLE = ("host", "content-length", "content-type", "transfer-encoding", "authorization")
"""Headers that mean something here, and nothing certain when they come twice."""
CLOSE = {"connection": "close"}
Refusal = tuple[int, dict[str, object], dict[str, str]]
"""Status, body and headers of an answer to a request that may not come in."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def failure(code: str, message: str, suggestions: Collection[str] = ()) -> dict[str, object]:
    """Return the body of every answer that is none."""
    return {"error": {"code": code, "message": message, "suggestions": list(suggestions)}}


class Guard:
    """ASGI middleware, outermost: nothing behind it sees a request that it refuses."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        metrics: Metrics,
        token: str | None,
        hosts: Collection[str],
        paths: Collection[str],
    ) -> None:
        self.app, self.limits, self.metrics, self.token = app, limits, metrics, token
        self.hosts, self.paths = frozenset(hosts) | LOOPBACK, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it at once."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began, body = 0, time.perf_counter(), Body(receive, self.limits.body_bytes)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        self.metrics.in_flight += 1
        try:
            refusal = _ambiguity(scope) or self._refusal(scope["path"], Headers(scope=scope))
            if refusal is not None:
                await _answer(sending, *refusal)
                return
            try:
                with anyio.fail_after(self.limits.seconds):
                    await self.app(scope, body.receive, sending)
            except TimeoutError:
                if status:  # the client takes its answer too slowly: the server lets go of it
                    return
                await _answer(sending, *_late(self.limits.seconds, body.is_late))
            except Exception:
                if status:
                    raise
                log.exception("request failed: %s", scope["path"])
                await _answer(sending, 500, failure("internal", "something broke here; the server's log says what"))
        finally:
            self.metrics.in_flight -= 1
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.record(path, status or 500, time.perf_counter() - began)

    def _refusal(self, path: str, headers: Headers) -> Refusal | None:
        """Return the answer to a request that may not come in."""
        if self.token is None and _name(headers.get("host", "")) not in self.hosts:  # a rebound name, in a browser
            return 421, failure("host", "this service answers to its own address alone"), {}
        if self.token is not None and path not in OPEN_PATHS and not path.startswith("/assets/"):
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
                said = "this service needs a token: Authorization: Bearer TOKEN"
                return 401, failure("token", said), {"www-authenticate": "Bearer"}
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 18 or int(length) > self.limits.body_bytes):
            return 413, failure("too_large", _too_large(self.limits.body_bytes)), {}
        return None


class Body:
    """A request's body as it comes: no more than the limit of it, whatever its headers say."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._left = receive, most, most
        self._is_whole, self.is_late = False, False

    async def receive(self) -> Message:
        """Return the next message of the server."""
        self.is_late = not self._is_whole  # until it has come
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        self._is_whole, self.is_late = not message.get("more_body", False), False
        if self._left < 0:
            raise HTTPException(413, _too_large(self._most))
        return message


def _ambiguity(scope: Scope) -> Refusal | None:
    """Return the answer to a request that two readers could understand in two ways."""
    headers = Headers(scope=scope)
    twice = next((name for name in SINGLE if len(headers.getlist(name)) > 1), None)
    if twice is not None:
        return 400, failure("bad_request", f"the header {twice} came more than once; send it once"), CLOSE
    if scope["http_version"] != "1.0" and not headers.get("host"):
        return 400, failure("bad_request", "the header host is missing; send it once"), CLOSE
    return None


def _late(seconds: float, by_client: bool) -> Refusal:
    """Return the answer to a request whose time is over, which is the client's fault if its body was waited for."""
    if by_client:
        return 408, failure("slow", f"the body did not come within {seconds:g} seconds"), CLOSE
    return 504, failure("timeout", f"this took longer than {seconds:g} seconds; ask for less"), {}


def _name(host: str) -> str:
    """Return a Host header without its port.

    >>> _name("[::1]:8000"), _name("localhost:80"), _name("Example.org")
    ('[::1]', 'localhost', 'example.org')
    """
    bare, colon, port = host.rpartition(":")
    return (bare if colon and port.isdecimal() else host).lower()


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit:,} bytes; send it in parts"


async def _answer(send: Send, status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> None:
    data = json.dumps(body).encode()
    given = {"content-type": "application/json", "content-length": str(len(data))} | (headers or {})
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": data})
