"""A SPARQL endpoint: a SELECT or CONSTRUCT query over HTTP, asked for page by page."""

from __future__ import annotations

import http.client
import json
import logging
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from staypositive.errors import DownloadError, InputError, SettingError, StayPositiveError
from staypositive.graph.labelled import LabelledTriples, Place
from staypositive.graph.readers.columns import find_columns
from staypositive.graph.readers.rdf import (
    RdfTerms,
    Statement,
    Statements,
    Term,
    import_pyoxigraph,
    literal_label,
    statement_of,
)
from staypositive.version import __version__

log = logging.getLogger(__name__)

ACCEPT = {"SELECT": "application/sparql-results+json", "CONSTRUCT": "application/n-triples"}
_KINDS = {"uri": "iri", "bnode": "blank", "literal": "literal", "typed-literal": "literal"}
_AGAIN = (429, 500, 502, 503, 504)  # answers after which it is worth asking again
MOST_BYTES = 2**29  # bytes of one page of an answer


@dataclass(frozen=True)
class Sparql:
    """A query for triples: a SELECT of head, relation and tail (by name, else the first three), or a CONSTRUCT.

    It is asked for in pages of `page` rows, by LIMIT and OFFSET, unless it has one of these itself; pages are parts
    of one answer only if the endpoint keeps an order, which ORDER BY makes sure of. A SELECT goes on after the rows
    that came, so an endpoint may give fewer than asked for; of a CONSTRUCT's solutions it must give whole pages. A
    page that takes longer than `timeout` seconds from request to last byte, is cut short, or fails at the server, is
    asked for `retries` times more.
    """

    endpoint: str
    query: str
    page: int = 10_000
    timeout: float = 60.0
    retries: int = 2

    def __post_init__(self) -> None:
        if not is_endpoint(self.endpoint):
            raise SettingError(f"an endpoint is an http or https address, got {self.endpoint!r}")
        if self.page < 1 or not self.timeout > 0 or self.retries < 0:
            raise SettingError("page and timeout must be above 0, and retries not negative")
        if self.form not in ACCEPT:
            raise SettingError("expected a SELECT or CONSTRUCT query: triples are asked for, nothing else")

    @property
    def form(self) -> str:
        """SELECT, CONSTRUCT or another: the first word behind the prefixes."""
        bare = re.sub(r"<[^<>\s]*>|#[^\n]*|(?i:prefix)\s+[^\s:]*:|(?i:base)\s", " ", self.query)
        word = re.search(r"[A-Za-z]+", bare)
        return word.group().upper() if word else ""

    @property
    def has_own_limit(self) -> bool:
        return self._ends_with(r"\b(LIMIT|OFFSET)\b")

    @property
    def is_ordered(self) -> bool:
        return self._ends_with(r"\bORDER\s+BY\b")

    def _ends_with(self, clause: str) -> bool:
        return re.search(clause, self.query.rpartition("}")[2], re.IGNORECASE) is not None

    def at(self, offset: int) -> str:
        """Return the query for the page that begins at row `offset`."""
        return self.query if self.has_own_limit else f"{self.query.rstrip()}\nLIMIT {self.page} OFFSET {offset}"


def is_endpoint(source: object) -> bool:
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def read_sparql(asked: Sparql, terms: RdfTerms | None = None) -> LabelledTriples:
    statements = Statements(Place(asked.endpoint, "statement"), terms or RdfTerms())
    pages, offset = 0, 0
    while True:
        pages += 1
        statements.next_document(f"p{pages}-")
        before = statements.seen
        read = _bindings if asked.form == "SELECT" else _triples
        try:
            statements.take(read(_post(asked, asked.at(offset))))
        except StayPositiveError:
            raise
        except Exception as error:  # JSON of any shape may have come, or none
            said = f"{asked.endpoint} did not answer with {ACCEPT[asked.form]}: {type(error).__name__}: {error}"
            raise DownloadError(said) from None
        log.info("%s: page %d, %d statements so far", asked.endpoint, pages, statements.seen)
        received = statements.seen - before
        if asked.has_own_limit or not received:
            break
        offset += received if asked.form == "SELECT" else asked.page  # an endpoint may give fewer rows than asked for
    several = pages > 2 and not asked.is_ordered
    notes = [f"read in {pages - 1} pages without ORDER BY: the endpoint must keep one order"] if several else []
    return statements.finish(asked.endpoint, "", {}, notes)


def _post(asked: Sparql, query: str) -> bytes:
    body = urllib.parse.urlencode({"query": query}).encode("ascii")
    headers = {"Accept": ACCEPT[asked.form], "User-Agent": f"staypositive/{__version__}"}
    request = urllib.request.Request(asked.endpoint, body, headers)
    said = ""
    for attempt in range(asked.retries + 1):
        if attempt:
            time.sleep(min(2.0**attempt / 4, 10))
        try:
            return _within(asked.timeout, partial(_answer, asked, request))
        except _PassingError as error:
            said = str(error)
    raise DownloadError(f"{asked.endpoint} {said}")


class _PassingError(Exception):
    """A failure after which it is worth asking again."""


def _within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """Return what `work` returns; when `seconds` have passed its thread is left to itself.

    The timeout of a socket begins anew with every byte, and so bounds nothing.
    """
    done: Future[bytes] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([done], seconds).done:
        raise _PassingError(f"did not answer within {seconds:g} s; ask for smaller pages, or wait longer")
    return done.result()


def _answer(asked: Sparql, request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=asked.timeout + 1) as answer:
            return _whole(answer, asked.endpoint)
    except urllib.error.HTTPError as error:
        excerpt = ""
        with error, suppress(OSError, http.client.HTTPException):
            excerpt = error.read(300).decode("utf-8", "replace").strip()
        said = f"answered {error.code}: {excerpt or error.reason}"
        if error.code not in _AGAIN:
            raise DownloadError(f"{asked.endpoint} {said}") from None
    except http.client.IncompleteRead as error:
        more = "" if error.expected is None else f", and {error.expected:,} more were announced"
        said = f"cut its answer short: {len(error.partial):,} bytes came{more}; ask for smaller pages"
    except (OSError, http.client.HTTPException) as error:
        said = f"cannot be reached: {getattr(error, 'reason', error)}"
    raise _PassingError(said)


def _whole(answer: http.client.HTTPResponse, endpoint: str) -> bytes:
    """Return the body of an answer: not more of it than a page may have, and not less than its head says."""
    body = answer.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise DownloadError(f"{endpoint} answered with more than {MOST_BYTES:,} bytes; ask for smaller pages")
    if answer.length:  # bytes that were announced and did not come
        raise http.client.IncompleteRead(body, answer.length)
    return body


def _bindings(answer: bytes) -> Iterator[Statement | None]:
    """Yield the rows of a SELECT; one that leaves a variable open states nothing."""
    found: dict[str, Any] = json.loads(answer)
    names = found["head"]["vars"]
    try:
        (head, relation, tail), _, _ = find_columns(names)
    except InputError:
        raise SettingError(
            f"the query selects {len(names)} variables; three are needed: ?head ?relation ?tail"
        ) from None
    for row in found["results"]["bindings"]:
        is_whole = all(names[place] in row for place in (head, relation, tail))
        yield (_term(row[names[head]]), _text(row[names[relation]]), _term(row[names[tail]])) if is_whole else None


def _term(value: dict[str, str]) -> Term:
    kind = _KINDS.get(value["type"], "triple")
    if kind == "literal":
        return kind, literal_label(_text(value), value.get("xml:lang"), value.get("datatype"))
    return kind, _text(value)


def _text(value: dict[str, str]) -> str:
    if not isinstance(value["value"], str):
        raise TypeError(f"a term has the value {value['value']!r}, which is not text")
    return value["value"]


def _triples(answer: bytes) -> Iterator[Statement]:
    library = import_pyoxigraph()
    return map(statement_of, library.parse(answer, format=library.RdfFormat.N_TRIPLES))
