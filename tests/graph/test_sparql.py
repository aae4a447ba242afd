"""A SPARQL endpoint on the loopback: a store that answers queries, and servers that fail in every way."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import staypositive as sp
from endpoints import Answer, Endpoint, bindings
from staypositive.errors import DataError, DownloadError, InputError, SettingError
from staypositive.graph.readers import read_sparql

ALL = "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?o"


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[str, str], Answer]], Endpoint]]:
    open_now: list[Endpoint] = []

    def start(answer: Callable[[str, str], Answer]) -> Endpoint:
        open_now.append(Endpoint(answer))
        return open_now[-1]

    yield start
    for endpoint in open_now:
        endpoint.close()


@pytest.fixture
def store(serve: Any) -> Endpoint:
    """A real SPARQL engine behind HTTP: 25 facts, one literal, one blank node."""
    pyoxigraph = pytest.importorskip("pyoxigraph")
    held = pyoxigraph.Store()
    lines = [f"<x:e{i:02}> <x:r> <x:e{(i + 1) % 25:02}> .\n" for i in range(25)]
    held.load(
        "".join([*lines, '<x:e00> <x:n> "n" .\n', "_:b <x:q> <x:e00> .\n"]).encode(),
        format=pyoxigraph.RdfFormat.N_TRIPLES,
    )

    def answer(query: str, accept: str) -> Answer:
        try:
            found = held.query(query)
        except SyntaxError as error:
            return 400, str(error).encode()
        if "json" in accept:
            return 200, found.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return 200, found.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES)

    endpoint: Endpoint = serve(answer)
    return endpoint


@pytest.mark.parametrize("page", [4, 27, 1000])
def test_pages_make_one_answer(store: Endpoint, page: int) -> None:
    read = read_sparql(sp.Sparql(store.address, ALL, page=page))
    facts = {row for row in zip(*read.columns, strict=True) if row[1] == "x:r"}
    assert facts == {(f"x:e{i:02}", "x:r", f"x:e{(i + 1) % 25:02}") for i in range(25)}
    assert len(read) == 26
    assert read.notes == ("1 statements with a literal left out",)
    assert len(store.asked) == -(-27 // page) + 1  # until a page is empty
    assert store.asked[0].endswith(f"LIMIT {page} OFFSET 0")


def test_an_endpoint_may_give_fewer_rows_than_asked_for(serve: Any) -> None:
    held = [(f"x:e{i}", "x:r", f"x:e{i + 1}") for i in range(10)]

    def answer(query: str, accept: str) -> Answer:
        offset = int(query.rpartition(" ")[2])
        return 200, bindings(*held[offset : offset + 3])  # never more than three

    read = read_sparql(sp.Sparql(serve(answer).address, ALL, page=5))
    assert list(zip(*read.columns, strict=True)) == held


def test_construct(store: Endpoint) -> None:
    query = "PREFIX x: <x:> CONSTRUCT { ?o <x:back> ?s } WHERE { ?s <x:r> ?o } ORDER BY ?s"
    read = read_sparql(sp.Sparql(store.address, query, page=10))
    assert len(read) == 25
    assert ("x:e01", "x:back", "x:e00") in set(zip(*read.columns, strict=True))


def test_variables_are_found_by_name(store: Endpoint) -> None:
    query = "SELECT ?tail ?head ?relation { ?head ?relation ?tail FILTER(?relation = <x:r>) } ORDER BY ?head"
    assert read_sparql(sp.Sparql(store.address, query)).columns[0][0] == "x:e00"


def test_a_query_with_its_own_limit_is_asked_once(store: Endpoint) -> None:
    assert len(read_sparql(sp.Sparql(store.address, f"{ALL} LIMIT 4", page=1))) == 3
    assert len(store.asked) == 1


def test_a_graph_from_an_endpoint(store: Endpoint) -> None:
    graph = sp.load_graph(sp.Sparql(store.address, "SELECT * { ?s ?p ?o }", page=5), name="mine")
    assert (graph.name, len(graph.relations), sum(graph.counts()[s] for s in ("train", "valid", "test"))) == (
        "mine",
        2,
        26,
    )
    assert "read in 6 pages without ORDER BY: the endpoint must keep one order" in graph.notes
    assert graph.sources[0].name == store.address


def test_what_an_endpoint_refuses_is_said(store: Endpoint) -> None:
    with pytest.raises(DownloadError, match=r"/sparql answered 400: .*expected"):
        read_sparql(sp.Sparql(store.address, "SELECT ?s ?p ?o { ?s ?p "))
    with pytest.raises(SettingError, match="selects 1 variables; three are needed"):
        read_sparql(sp.Sparql(store.address, "SELECT ?s { ?s ?p ?o }"))
    with pytest.raises(DataError, match="no triples here"):
        read_sparql(sp.Sparql(store.address, "SELECT ?s ?p ?o { ?s <x:none> ?o . ?s ?p ?o }"))


def test_a_server_in_trouble_is_asked_again(serve: Any) -> None:
    answers = iter([(503, b"busy"), (200, bindings(("a", "r", "b"))), (500, b""), (200, bindings())])
    endpoint = serve(lambda query, accept: next(answers))
    assert read_sparql(sp.Sparql(endpoint.address, ALL)).columns == (["a"], ["r"], ["b"])
    assert len(endpoint.asked) == 4


def test_a_server_that_stays_in_trouble(serve: Any) -> None:
    endpoint = serve(lambda query, accept: (503, b"closed for today"))
    with pytest.raises(DownloadError, match="answered 503: closed for today"):
        read_sparql(sp.Sparql(endpoint.address, ALL, retries=1))
    assert len(endpoint.asked) == 2


def test_a_slow_server(serve: Any) -> None:
    given_up = threading.Event()

    def slow(query: str, accept: str) -> Answer:
        given_up.wait(60)
        return 200, b""

    with pytest.raises(DownloadError, match=r"did not answer within 0\.1 s"):
        read_sparql(sp.Sparql(serve(slow).address, ALL, timeout=0.1, retries=0))
    given_up.set()


@pytest.mark.parametrize("data", [b"<html>", b"{}", b'{"head": {"vars": ["s", "p", "o"]}}', b"[]"])
def test_an_answer_that_is_none(serve: Any, data: bytes) -> None:
    endpoint = serve(lambda query, accept: (200, data))
    with pytest.raises(DownloadError, match=r"did not answer with application/sparql-results\+json"):
        read_sparql(sp.Sparql(endpoint.address, ALL))


def test_nobody_there() -> None:
    with socket.socket() as taken:  # a port of our own, at which nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/sparql"
        with pytest.raises(DownloadError, match="cannot be reached"):
            read_sparql(sp.Sparql(address, ALL, retries=0))


@pytest.mark.parametrize(
    ("query", "form"),
    [
        (ALL, "SELECT"),
        ("# a comment: construct\nPREFIX select: <http://ask/#x> select ?s", "SELECT"),
        ("base <x:> construct { }", "CONSTRUCT"),
        ("ASK { ?s ?p ?o }", "ASK"),
        ("", ""),
    ],
)
def test_forms(query: str, form: str) -> None:
    if form in ("SELECT", "CONSTRUCT"):
        assert sp.Sparql("http://x/", query).form == form
    else:
        with pytest.raises(SettingError, match="expected a SELECT or CONSTRUCT query"):
            sp.Sparql("http://x/", query)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(SettingError, match="an endpoint is an http or https address, got 'file:///etc'"):
        sp.Sparql("file:///etc", ALL)
    with pytest.raises(SettingError, match="page and timeout must be above 0"):
        sp.Sparql("http://x/", ALL, page=0)
    with pytest.raises(InputError, match="is an endpoint and needs a query"):
        sp.load_graph("http://127.0.0.1/sparql")


@contextmanager
def raw_server(head: bytes, pieces: Callable[[], Iterator[bytes]]) -> Iterator[tuple[str, list[int]]]:
    """A server that sends a head and pieces to everybody who connects, then closes; how often somebody did."""
    listening, came = socket.create_server(("127.0.0.1", 0)), []

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # who asked may have gone
            connection.recv(65536)
            connection.sendall(head)
            for piece in pieces():
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(65536)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                came.append(1)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/sparql", came
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def dribble() -> Iterator[bytes]:
    for _ in range(600):  # a minute, were it waited for
        time.sleep(0.1)
        yield b" "


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 503 Busy\r\nContent-Length: 600\r\n\r\n",
    ],
    ids=["body", "without a length", "head", "error"],
)
def test_a_byte_now_and_then_does_not_make_a_page_last_longer(head: bytes) -> None:
    """Each byte comes within the timeout; all of them would not."""
    with raw_server(head, dribble) as (address, came):
        began = time.monotonic()
        with pytest.raises(DownloadError, match=r"did not answer within 1 s; ask for smaller pages"):
            read_sparql(sp.Sparql(address, ALL, timeout=1, retries=1))
        assert time.monotonic() - began < 30
        assert len(came) == 2


@pytest.mark.parametrize("head", [b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n"])
def test_an_answer_that_is_cut_short_is_asked_for_again(head: bytes) -> None:
    body = bindings(("a", "r", "b"))  # whole JSON, so that nothing else tells
    with raw_server(b"HTTP/1.1 200 OK\r\n" + head, lambda: iter([body])) as (address, came):
        with pytest.raises(DownloadError, match=r"/sparql cut its answer short: .* bytes came"):
            read_sparql(sp.Sparql(address, ALL, retries=1))
        assert len(came) == 2
