"""Listening: a socket of our own, so that the address is known before the first request."""

from __future__ import annotations

import gc
import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from staypositive.errors import InputError
from staypositive.run import Run
from staypositive.service.app import create_app
from staypositive.service.connections import protocol
from staypositive.service.limits import Limits


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine can reach a host.

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
