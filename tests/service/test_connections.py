"""Clients that dawdle, flood or leave: a connection is held no longer, and keeps no more, than it may."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

import staypositive as sp
from service.serving import serving
from staypositive.service import Limits

ASKED = {"head": "Germany", "relation": "borders"}
HASTY = Limits(seconds=1.0, idle_seconds=0.5)
PATIENT = Limits(body_bytes=10_000)


@pytest.fixture(scope="module")
def hasty(geo_run: sp.Run) -> Iterator[str]:
    """A server that waits for nobody, for what must be given up."""
    with serving(geo_run, send_buffer=4096, limits=HASTY) as address:
        yield address


@pytest.fixture(scope="module")
def patient(geo_run: sp.Run) -> Iterator[str]:
    """A server that has the time to answer however busy the machine is."""
    with serving(geo_run, limits=PATIENT) as address:
        yield address


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def is_closed(held: socket.socket) -> bool:
    """Wait until the other side is done, and say whether it closed the connection."""
    try:
        while held.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def flood(held: socket.socket, piece: bytes) -> None:
    """Send a piece again and again, 100 MB in all."""
    for _ in range(100_000):
        held.sendall(piece)


def posting(path: str, length: int) -> bytes:
    kind = "host: localhost\r\ncontent-type: application/json"
    return f"POST /api/{path} HTTP/1.1\r\n{kind}\r\ncontent-length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\nhost: loc", b"POST /api/predict HTTP/1.1\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(hasty: str, start: bytes) -> None:
    with connect(hasty) as held:
        held.sendall(start)
        assert is_closed(held)


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(hasty: str) -> None:
    with connect(hasty) as held:
        for byte in b"GET /health HTTP/1.1\r\nx-long: " + b"a" * 1000:
            try:
                held.sendall(bytes([byte]))
            except ConnectionError:
                break
            time.sleep(0.01)
        else:
            pytest.fail("a thousand bytes were waited for")


def test_a_head_without_end_is_cut_off(patient: str) -> None:
    with connect(patient) as held:
        held.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            flood(held, b"x-long: " + b"a" * 1000 + b"\r\n")


def test_a_body_that_dawdles_is_answered_in_time(geo_run: sp.Run) -> None:
    with serving(geo_run, limits=Limits(seconds=1.0)) as address, connect(address) as held:
        held.sendall(b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                     b"content-length: 100\r\n\r\n{")  # fmt: skip
        answer = held.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408")
        assert is_closed(held)


def test_trailers_without_end_are_cut_off(patient: str) -> None:
    with connect(patient) as held:
        held.sendall(
            b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
        )
        with pytest.raises(ConnectionError):
            flood(held, b"x-long: " + b"a" * 1000 + b"\r\n")


def test_the_rest_of_a_refused_body_is_not_read_for_ever(patient: str) -> None:
    with connect(patient) as held:
        held.sendall(b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n")
        assert held.recv(65536).startswith(b"HTTP/1.1 413")
        with pytest.raises(ConnectionError):
            flood(held, b"a" * 1000)


def test_an_answer_that_is_not_taken_is_given_up(hasty: str) -> None:
    body = json.dumps({"queries": [ASKED] * 40, "top": 1000}).encode()
    head = posting("predict/batch", len(body))
    with connect(hasty) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        held.sendall(head + body)
        time.sleep(2 * (HASTY.seconds + HASTY.idle_seconds))
        assert is_closed(held)


def test_connections_are_counted(geo_run: sp.Run) -> None:
    with serving(geo_run, limits=Limits(connections=8)) as address:
        with contextlib.ExitStack() as held:
            *_, late = [held.enter_context(connect(address)) for _ in range(9)]
            answer = late.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "busy"
        for _ in range(1000):  # until the server has seen that they left
            if httpx.get(f"{address}/health", timeout=60).status_code == 200:
                return
            time.sleep(0.01)
        pytest.fail("connections that were closed count as open")


def test_clients_that_leave_do_no_harm(patient: str) -> None:
    body = json.dumps(ASKED).encode()
    head = posting("predict", len(body))
    for part in (head, head + body[:5], head + body):
        for _ in range(20):
            with connect(patient) as held:
                held.sendall(part)
    with httpx.Client(base_url=patient, timeout=60) as client:
        assert client.post("/api/predict", json=ASKED).status_code == 200
        assert 'status="500"' not in client.get("/metrics").text


def test_a_kept_connection_serves_many_requests(patient: str) -> None:
    with httpx.Client(base_url=patient, timeout=60) as client:
        for _ in range(50):
            assert client.post("/api/predict", json=ASKED).status_code == 200
        for _ in range(3):
            assert client.post("/api/predict", content=b"x" * 20_000).status_code == 413


def test_unknown_labels_by_the_thousand_are_quickly_refused(patient: str) -> None:
    queries = [{"head": f"Nowhere Land number {number}", "relation": "borders"} for number in range(100)]
    with httpx.Client(base_url=patient, timeout=60) as client:
        reply = client.post("/api/predict/batch", json={"queries": queries})
        assert reply.status_code == 404
        assert reply.json()["error"]["message"].startswith("query 0: ")
