"""Connections that keep moving: what a client may do before a request is whole, or after its answer, is bounded here.

The guard bounds a request from its head to its answer. Before and after that the connection is uvicorn's alone, which
would wait for ever for a head, and keep whatever head is sent.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from staypositive.service.guard import failure
from staypositive.service.limits import MOST_HEAD, Limits

_BODY = json.dumps(failure("busy", "too many connections; try again")).encode()
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a clock while no request is being answered and a measure of each request's bytes."""

    limits = Limits()
    _clock: asyncio.TimerHandle | None = None
    _received = 0
    _in_head = False

    def connection_made(self, transport: Any) -> None:
        """Take a connection, if there is room."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(FULL)
            transport.close()
            return
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand bytes on, unless a request has had too many."""
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)
        if self._received > (MOST_HEAD if self._in_head else MOST_HEAD + 4 * self.limits.body_bytes):
            self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._received, self._in_head = 0, True

    def on_headers_complete(self) -> None:
        """Leave the time to the guard, which answers within its own; some more to take the answer."""
        self._in_head = False
        self._start_clock(self.limits.seconds)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of one that was answered early, but not for ever."""
        waits = not self.pipeline
        super().on_response_complete()
        if waits and not self.transport.is_closing():
            self._start_clock()

    def _start_clock(self, more: float = 0.0) -> None:
        self._stop_clock()
        self._clock = self.loop.call_later(self.limits.idle_seconds + more, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def protocol(limits: Limits) -> type[BoundedProtocol]:
    """Return the protocol for some limits: uvicorn takes a class."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
