"""HTTP requests that end in time: the timeout of a socket begins anew with every byte, and so bounds nothing."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any


class Deadline:
    """Shuts every connection made through its `opener` once so many seconds are over, whatever they are at."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.opener = urllib.request.build_opener(_Http(self), _Https(self))
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() >= self.end

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for end in self._ends:
                end.close()
            self._ends = []

    def connect(self, address: tuple[str, int], *given: Any, **named: Any) -> socket.socket:
        """Make a connection, and keep another handle of it, since TLS takes the first over."""
        made = socket.create_connection(address, max(1e-3, self.end - time.monotonic()))
        with self._lock:
            self._ends.append(made.dup())
        if self.is_over:
            self._shut()
        return made

    def _shut(self) -> None:
        with self._lock:
            for end in self._ends:
                with suppress(OSError):  # gone already
                    end.shutdown(socket.SHUT_RDWR)

    def watched(self, kind: type[http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        """Return what makes connections of a kind that this deadline shuts."""

        def make(*given: Any, **named: Any) -> http.client.HTTPConnection:
            connection: Any = kind(*given, **named)
            connection._create_connection = self.connect  # an attribute so that others can put theirs in its place
            found: http.client.HTTPConnection = connection
            return found

        return make


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self.deadline.watched(http.client.HTTPConnection), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self.deadline.watched(http.client.HTTPSConnection), req)
