"""Listening: a socket of our own, so that the address is known before the first request, and connections that move.

The guard bounds a request from its head to its answer. Before and after that the connection is uvicorn's, which would
wait for ever for a head, and keep whatever head is sent: what a client may do there is bounded here.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from staypositive.errors import InputError
from staypositive.run import Run
from staypositive.service.app import create_app
from staypositive.service.guard import failure
from staypositive.service.limits import MOST_HEAD, Limits

_BODY = bytes(failure(503, "busy", "too many connections; try again").body)
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def is_loopback(host: str) -> bool:
    """Return whether nobody outside this machine can reach a host.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    run: Run, *, host: str, port: int, token: str | None, limits: Limits, announce: Callable[[str], None]
) -> None:
    """Serve a run until interrupted; `announce` is told the address once connections are taken."""
    if token is None and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines: give a token (--token or STAYPOSITIVE_TOKEN), "
            "or serve on 127.0.0.1"
        )
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise InputError("a token is printable ASCII and not empty")
    listening = _listen(host, port)
    app = create_app(run, limits=limits, token=token, hosts=(host,))
    config = uvicorn.Config(
        app, http=protocol(limits), ws="none", log_level="error", access_log=False, server_header=False,
        timeout_keep_alive=30, lifespan="on",
    )  # fmt: skip
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{listening.getsockname()[1]}/")
    gc.collect()
    gc.freeze()  # what is loaded stays: looking through it again and again would hold up requests
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address, family=family, backlog=1024)
        # Taken over by each connection: an answer's head and body are two writes, and must not wait for each other.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host} port {port}: {error}") from None


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a clock while no request is being answered and a measure of each request's bytes."""

    limits = Limits()
    _clock: asyncio.TimerHandle | None = None
    _received = 0
    _in_head = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(FULL)
            transport.close()
            return
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)
        if self._received > (MOST_HEAD if self._in_head else MOST_HEAD + 4 * self.limits.body_bytes):
            self.transport.close()

    def on_message_begin(self) -> None:
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


def protocol(limits: Limits) -> type[BoundedProtocol]:  # uvicorn takes a class
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
