"""A server on the loopback whose answers a function gives: what tests of SPARQL ask."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

Answer = tuple[int, bytes]


class Endpoint:
    """A server whose answers a function gives, and the requests that came."""

    def __init__(self, answer: Callable[[str, str], Answer]) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                query = parse_qs(body)["query"][0]
                outer.asked.append(query)
                status, data = answer(query, self.headers["Accept"])
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                with contextlib.suppress(BrokenPipeError):  # who asked may have gone
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/sparql"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def bindings(*rows: tuple[str, str, str]) -> bytes:
    found = [{n: {"type": "uri", "value": v} for n, v in zip("spo", row, strict=True)} for row in rows]
    return json.dumps({"head": {"vars": list("spo")}, "results": {"bindings": found}}).encode()
