"""What the service refuses, and how it says so: never with a 5xx for what the caller did."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

import staypositive as sp
from service.serving import asking, serving
from staypositive.errors import InputError
from staypositive.inference import Predictor
from staypositive.service import Limits, serve
from staypositive.service.batching import WorkQueue
from staypositive.service.query_service import QueryService
from staypositive.service.schemas import DiscoverIn
from staypositive.service.server import is_loopback

ASKED = {"head": "Germany", "relation": "borders"}


def problem(reply: httpx.Response, status: int, code: str) -> str:
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]["code"] == code
    return str(reply.json()["error"]["message"])


def test_unknown_labels_are_404_with_near_matches(client: httpx.Client) -> None:
    reply = client.post("/api/predict", json={"head": "Germny", "relation": "borders"})
    assert "no entity is called 'Germny'" in problem(reply, 404, "unknown_entity")
    assert reply.json()["error"]["suggestions"][0] == "Germany"
    reply = client.post("/api/predict", json={"head": "Germany", "relation": "bordres"})
    problem(reply, 404, "unknown_relation")
    assert "borders" in reply.json()["error"]["suggestions"]
    for path, query in (("similar", {"entity": "x"}), ("facts", {"entity": "x"}), ("neighbourhood", {"entity": "x"})):
        problem(client.get(f"/api/{path}", params=query), 404, "unknown_entity")
    problem(client.get("/api/facts", params={"entity": "Peru", "relation": "x"}), 404, "unknown_relation")
    for path in ("explain", "score"):
        triple = {"head": "Peru", "relation": "borders", "tail": "Atlantis"}
        body = triple if path == "explain" else {"triples": [triple]}
        problem(client.post(f"/api/{path}", json=body), 404, "unknown_entity")
    problem(client.post("/api/discover", json={"relations": ["x"]}), 404, "unknown_relation")
    problem(client.post("/api/predict", json=ASKED | {"candidates": ["Atlantis"]}), 404, "unknown_entity")
    batch = {"queries": [ASKED, {"head": "Atlantis", "relation": "borders"}]}
    assert problem(client.post("/api/predict/batch", json=batch), 404, "unknown_entity").startswith("query 1: ")


@pytest.mark.parametrize(
    "body",
    [
        ASKED | {"top": 0}, ASKED | {"top": 1001}, ASKED | {"completeness": 0}, ASKED | {"completeness": 1},
        ASKED | {"completeness": -1}, ASKED | {"completeness": "NaN"}, ASKED | {"prior": 0.1},
        ASKED | {"candidates": "all"}, ASKED | {"candidates": []},
        ASKED | {"colour": "red"},
        ASKED | {"head": ""}, ASKED | {"head": "x" * 1001}, ASKED | {"head": 7}, [], None, "text",
    ],
)  # fmt: skip
def test_values_out_of_bounds_are_422(client: httpx.Client, body: object) -> None:
    problem(client.post("/api/predict", json=body), 422, "invalid")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"\\ud800": 1}',
        b'{"head": "\\ud800", "relation": "borders"}',
        b"\xff\xfe",
        b'{"head": "Germany", "completeness": NaN}',
        b"[" * 50_000,
    ],
)
def test_a_body_that_is_no_json_is_a_4xx(client: httpx.Client, content: bytes) -> None:
    reply = client.post("/api/predict", content=content, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("predict", {"head": "Germany"}),
        ("predict", {}),
        ("predict", {"head": "France", "tail": "Spain", "candidates": "range"}),
        ("prediction-set", {"head": "France", "tail": "Spain"}),
    ],
)
def test_what_cannot_be_asked_is_400(client: httpx.Client, path: str, body: dict) -> None:
    problem(client.post(f"/api/{path}", json=body), 400, "bad_request")


def test_batches_are_bounded(client: httpx.Client) -> None:
    problem(client.post("/api/predict/batch", json={"queries": [ASKED] * 1001}), 422, "invalid")
    reply = client.post("/api/predict/batch", json={"queries": [ASKED] * 51, "top": 1000})
    assert "queries × top is at most 50,000" in problem(reply, 422, "invalid")
    problem(client.post("/api/predict/batch", json={"queries": []}), 422, "invalid")
    problem(client.post("/api/score", json={"triples": []}), 422, "invalid")


def test_long_work_is_bounded(geo_run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    service = QueryService(geo_run)
    monkeypatch.setattr("staypositive.service.limits.MOST_PAIRS", 1000)
    with pytest.raises(InputError, match=r"25,599 pairs, and 1,000 are the most"):
        service.discover(DiscoverIn(relations=["borders"]))


def test_large_bodies_are_413(address: str, client: httpx.Client) -> None:
    big = json.dumps({"head": "x" * 2**20, "relation": "borders"}).encode()
    kind = {"content-type": "application/json"}
    assert "1,048,576 bytes" in problem(client.post("/api/predict", content=big, headers=kind), 413, "too_large")

    def pieces() -> Iterator[bytes]:  # without a length said beforehand
        for start in range(0, len(big), 2**16):
            yield big[start : start + 2**16]

    problem(client.post("/api/predict", content=pieces(), headers=kind), 413, "too_large")


def test_paths_and_methods_that_do_not_exist(client: httpx.Client) -> None:
    problem(client.get("/api/nothing"), 404, "not_found")
    problem(client.get("/api/predict"), 405, "method")
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/none.js", "/assets/", "/assets//etc/passwd"):
        problem(client.get(path), 404, "not_found")


def test_a_token_guards_all_but_the_page(geo_run: sp.Run) -> None:
    with asking(geo_run, token="s3cret") as client:
        for path in ("/", "/docs", "/health", "/ready", "/assets/app.js"):
            assert client.get(path).status_code in (200, 503)
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s3cret"},
                        {"authorization": "Bearer s3cret2"}, {"authorization": "s3cret"}):  # fmt: skip
            for path in ("/api/run", "/metrics", "/openapi.json", "/api/nothing"):
                reply = client.get(path, headers=headers)
                assert "Bearer TOKEN" in problem(reply, 401, "token")
                assert reply.headers["www-authenticate"] == "Bearer"
        good = {"authorization": "Bearer s3cret"}
        assert client.get("/api/run", headers=good).status_code == 200
        assert client.post("/api/predict", json=ASKED, headers=good).status_code == 200
        assert client.get("/api/run", headers=good | {"host": "example.org"}).status_code == 200


def test_without_a_token_only_loopback_names_are_answered(client: httpx.Client, address: str) -> None:
    port = address.rpartition(":")[2]
    problem(client.get("/api/run", headers={"host": "evil.example"}), 421, "host")
    problem(client.get("/", headers={"host": f"evil.example:{port}"}), 421, "host")
    assert client.get("/api/run", headers={"host": f"localhost:{port}"}).status_code == 200


def test_time_is_limited(geo_run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(Predictor, "similar", lambda *_: [answered.wait(60)])  # no end before the answer
    with asking(geo_run, limits=Limits(seconds=0.3)) as client:
        reply = client.get("/api/similar", params={"entity": "Peru"})
        answered.set()
        assert "longer than 0.3 seconds" in problem(reply, 504, "timeout")


def test_work_stops_between_pieces(geo_run: sp.Run) -> None:
    service, queue = QueryService(geo_run), WorkQueue("test", Limits(seconds=-1.0))
    with pytest.raises(TimeoutError):
        asyncio.run(queue.run(service.discover, DiscoverIn(relations=["borders", "speaks"])))
    queue.close()


def test_too_many_waiting_are_sent_away(geo_run: sp.Run) -> None:
    with asking(geo_run, limits=Limits(waiting=0)) as client:
        for reply in (client.post("/api/predict", json=ASKED), client.get("/api/similar", params={"entity": "Peru"})):
            problem(reply, 503, "busy")
            assert reply.headers["retry-after"] == "1"
        assert client.get("/ready").status_code == 503  # it could not warm up either
        assert client.get("/health").status_code == 200


def test_what_breaks_inside_tells_nothing_outside(geo_run: sp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(geo_run) as client:
        client.get("/api/entities")
        monkeypatch.setattr(Predictor, "similar", lambda *_: 1 / 0)
        monkeypatch.setattr(QueryService, "answer_all", lambda *_: 1 / 0)
        for reply in (
            client.get("/api/similar", params={"entity": "Peru"}),
            client.post("/api/predict", json=ASKED),
        ):
            assert "division" not in problem(reply, 500, "internal")
        assert client.get("/health").status_code == 200


def test_serving_beyond_loopback_needs_a_token(geo_run: sp.Run) -> None:
    said: list[str] = []
    options = {"port": 0, "limits": Limits(), "announce": said.append}
    with pytest.raises(InputError, match="can be reached from other machines: give a token"):
        serve(geo_run, host="0.0.0.0", token=None, **options)
    with pytest.raises(InputError, match="printable ASCII"):
        serve(geo_run, host="127.0.0.1", token=" ", **options)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen on 127"):
        serve(geo_run, host="127.0.0.1", token=None, **options | {"port": taken.getsockname()[1]})
    assert said == []
    assert is_loopback("::1")
    assert not is_loopback("example.org")


@pytest.mark.parametrize(
    "lines",
    [
        "host: localhost\r\nhost: localhost",
        "host: localhost\r\nHost: evil.example",
        "accept: */*",
        "host:",
        "host: localhost\r\nauthorization: Bearer a\r\nauthorization: Bearer b",
        "host: localhost\r\ncontent-type: text/plain\r\ncontent-type: application/json",
        "host: localhost\r\ncontent-length: 0\r\ncontent-length: 0",
        "host: localhost\r\ncontent-length: 0\r\ncontent-length: 5",
        "host: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked",
    ],
)
@pytest.mark.parametrize("token", [None, "s3cret"])
def test_an_ambiguous_head_is_400(geo_run: sp.Run, lines: str, token: str | None) -> None:
    with serving(geo_run, token=token) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as held:
            held.sendall(f"GET /health HTTP/1.1\r\n{lines}\r\n\r\n".encode())
            said = b""
            while piece := held.recv(65536):
                said += piece
    assert said.startswith(b"HTTP/1.1 400 "), said
    assert said.count(b"HTTP/1.1") == 1


def test_http_1_0_may_leave_out_the_host(geo_run: sp.Run) -> None:
    with serving(geo_run, token="s3cret") as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as held:
            held.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert held.recv(65536).startswith(b"HTTP/1.1 200 ")
