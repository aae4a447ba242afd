"""A real server on a loopback port, in a thread: what tests talk to is what users talk to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

import staypositive as sp
from staypositive.service import Limits, create_app
from staypositive.service.server import protocol


@contextmanager
def serving(run: sp.Run, send_buffer: int | None = None, **options: Any) -> Iterator[str]:
    """Serve a run; give its address. `send_buffer`: bytes of an answer that the system holds for the client."""
    listening = socket.create_server(("127.0.0.1", 0))
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)  # which its connections inherit
    http = protocol(options.get("limits") or Limits())
    config = uvicorn.Config(create_app(run, **options), http=http, ws="none", log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    assert server.started, "the server ended before it was ready"
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()


@contextmanager
def asking(run: sp.Run, **options: Any) -> Iterator[httpx.Client]:
    """Serve a run; give a client that waits as long as a busy machine may take."""
    with serving(run, **options) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client
