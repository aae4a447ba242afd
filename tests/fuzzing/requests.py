"""Target `service`: requests to the app itself, byte by byte what a server would hand it."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import staypositive as sp
from fuzzing.cases import Target
from fuzzing.drawing import anything, as_json, mutated_bytes, mutated_json, scalar, text
from fuzzing.runs import small_graph
from staypositive.service import Limits, create_app

BODIES: dict[str, Any] = {
    "/api/predict": {"head": "p0", "relation": "left",
    "top": 3, "exclude_known": True, "candidates": ["p1"], "prior": 0.1},
    "/api/predict/batch": {"queries": [{"head": "p0", "relation": "left"}, {"relation": "right",
    "tail": "p2"}], "top": 2},
    "/api/score": {"triples": [{"head": "p0", "relation": "left", "tail": "p1"}], "prior": 0.2},
    "/api/prediction-set": {"head": "p0", "relation": "left", "coverage": 0.5, "top": 4, "per_relation": False},
    "/api/explain": {"head": "p0", "relation": "left", "tail": "p1", "top": 2},
    "/api/discover": {"relations": ["left"], "min_probability": 0.1, "top": 3},
}  # fmt: skip
QUERIES: dict[str, dict[str, Any]] = {
    "/api/entities": {"search": "p", "top": 3}, "/api/similar": {"entity": "p0", "top": 2},
    "/api/facts": {"entity": "p0", "relation": "left", "top": 3}, "/api/neighbourhood": {"entity": "p0", "top": 4},
    "/api/stats": {"threshold": 0.5, "prior": 0.1, "samples": 5}, "/api/relations": {}, "/api/run": {},
    "/health": {}, "/ready": {}, "/metrics": {}, "/openapi.json": {}, "/": {}, "/docs": {}, "/assets/app.js": {},
}  # fmt: skip
KINDS = (
    b"application/json",
    b"application/json; charset=utf-16",
    b"text/plain",
    b"",
    b"multipart/form-data; boundary=x",
    b"\xff",
)
GOOD = {200, 307, 400, 401, 404, 405, 413, 421, 422, 503}


class Requests(Target):
    """A small run behind the whole app, guard included."""

    def __init__(self, folder: Path) -> None:
        run = sp.fit(small_graph(), model="distmult", dim=2, epochs=1, batch_size=8, engine="reference")
        run.calibrate()
        self.loop = asyncio.new_event_loop()
        limits = Limits(body_bytes=4096)
        self.apps = [create_app(run, limits=limits), create_app(run, limits=limits, token="t")]

    def case(self, draw: random.Random) -> str:
        scope, pieces = self._request(draw)
        leaves = len(pieces) == 2 and draw.random() < 0.1
        app = draw.choice(self.apps)
        answer = self.loop.run_until_complete(_ask(app, scope, pieces[:1] if leaves else pieces, leaves))
        if answer is None:
            return "left without an answer"
        status, headers, body = answer
        assert status in GOOD, (status, scope, pieces, body[:2000])
        assert headers[b"x-content-type-options"] == b"nosniff"
        assert b"default-src 'none'" in headers[b"content-security-policy"]
        if status >= 400 and scope["method"] != "HEAD" and scope["path"] != "/ready":
            problem = json.loads(body)["error"]
            assert problem["code"]
            assert isinstance(problem["message"], str)
            assert len(body) < 20_000, "an error that says far more than was asked"
        elif headers.get(b"content-type") == b"application/json":
            json.loads(body, parse_constant=_refuse)
        return f"{status}"

    def close(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def _request(self, draw: random.Random) -> tuple[dict[str, Any], list[bytes]]:
        method, query, body = "GET", b"", b""
        if draw.random() < 0.6:
            path = draw.choice(list(BODIES))
            method, body = "POST", as_json(draw, self._body(draw, BODIES[path]))
            query = text(draw).encode("utf-8", "surrogatepass") if draw.random() < 0.05 else b""
        else:
            path = draw.choice(list(QUERIES))
            asked = dict(QUERIES[path])
            if asked and draw.random() < 0.8:
                asked[draw.choice([*asked, text(draw)])] = scalar(draw)
            query = "&".join(
                f"{quote(k, errors='replace')}={quote(str(v)[:2000], errors='replace')}" for k, v in asked.items()
            ).encode()
            query = mutated_bytes(draw, query) if draw.random() < 0.2 else query
        if draw.random() < 0.03:
            path, method = (
                draw.choice((path + text(draw), "/" + text(draw))),
                draw.choice(("GET", "POST", "PUT", "HEAD", "X")),
            )
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode("utf-8", "surrogatepass"), "root_path": "", "query_string": query,
            "headers": self._headers(draw, len(body)), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        cut = draw.randrange(len(body) + 1)
        return scope, [body[:cut], body[cut:]] if draw.random() < 0.5 else [body]

    def _body(self, draw: random.Random, good: Any) -> Any:
        chance = draw.random()
        return good if chance < 0.1 else mutated_json(draw, good) if chance < 0.9 else anything(draw)

    def _headers(self, draw: random.Random, length: int) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"host", b"localhost" if draw.random() < 0.95 else text(draw).encode("utf-8", "replace")),
            (b"content-type", KINDS[0] if draw.random() < 0.9 else draw.choice(KINDS)),
            (b"authorization", b"Bearer t" if draw.random() < 0.9 else b"Bearer " + draw.randbytes(3)),
        ]
        if draw.random() < 0.5:
            stated = length if draw.random() < 0.8 else draw.choice((-1, 0, 10**30, "9" * 5000, "x", "²", "1e3", ""))
            headers.append((b"content-length", str(stated).encode("latin-1")))
        if draw.random() < 0.1:
            headers.append((draw.choice((b"accept", b"x", b"cookie", b"origin", b"host")), draw.randbytes(8)))
        return headers


async def _ask(
    app: Any, scope: dict[str, Any], pieces: list[bytes], leaves: bool
) -> tuple[int, dict[bytes, bytes], bytes] | None:
    """Hand a request to an app as a server would, and gather its answer; `leaves`: the client goes away halfway."""
    left, sent = list(pieces), []

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": leaves or bool(left)}
        if not leaves:
            await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if leaves and not sent:
        return None
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body


def _refuse(number: str) -> float:
    raise AssertionError(f"{number} in an answer")
