"""A real server on a loopback port, in a thread: what tests talk to is what users talk to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

import staypositive as sp
from staypositive.service import Limits, create_app
from staypositive.service.connections import protocol


@contextmanager
def serving(run: sp.Run, **options: Any) -> Iterator[str]:
    """Serve a run; give its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    http = protocol(options.get("limits") or Limits())
    config = uvicorn.Config(create_app(run, **options), http=http, ws="none", log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
