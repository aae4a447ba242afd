"""Labels as RDF terms, and triples as N-Triples; plain text, so that nothing needs to be installed.

A label that is an IRI, a blank node (`_:b1`) or, as a tail, a literal in N-Triples' own syntax is kept as it is. Any
other is percent-encoded after a base: `France` becomes `<urn:staypositive:France>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

BASE = "urn:staypositive:"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
PROBABILITY = f"{BASE}probability"
_IRI = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://|urn:|mailto:)[^\x00-\x20<>\"{}|^`\\]+")
_BLANK = re.compile(r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_ESCAPE = r"""\\(?:[tbnrf"'\\]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"""
_LITERAL = re.compile(
    rf'"(?:[^"\\\n\r]|{_ESCAPE})*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^<[^\x00-\x20<>"{{}}|^`\\]+>)?'
)


def iri(label: str, base: str = BASE) -> str:
    """Return a label as an IRI in angle brackets.

    >>> iri("South Korea"), iri("http://example.org/a")
    ('<urn:staypositive:South%20Korea>', '<http://example.org/a>')
    """
    return f"<{label}>" if _IRI.fullmatch(label) else f"<{base}{quote(label, safe='')}>"


def node(label: str, base: str = BASE, *, may_be_literal: bool = False) -> str:
    """Return a label as the term that it is, else as an IRI."""
    if _BLANK.fullmatch(label) or (may_be_literal and _LITERAL.fullmatch(label)):
        return label
    return iri(label, base)


def terms(labels: Sequence[str], base: str = BASE) -> tuple[str, str, str]:
    """Return head, relation and tail as terms; a tail may be a literal."""
    head, relation, tail = labels
    return node(head, base), iri(relation, base), node(tail, base, may_be_literal=True)


def statement(labels: Sequence[str], base: str = BASE) -> str:
    return f"{' '.join(terms(labels, base))} .\n"


def with_probabilities(triples: Iterable[Sequence[str]], probabilities: Iterable[float]) -> Iterator[str]:
    """Yield each triple, and beside it a reified statement (rdf:Statement) that carries its probability.

    Reification is what every RDF tool reads; quoted triples are read by few, and their syntax has changed.
    """
    for number, (labels, probability) in enumerate(zip(triples, probabilities, strict=True), 1):
        name = f"_:statement{number}"
        yield statement(labels)
        yield f"{name} <{RDF}type> <{RDF}Statement> .\n"
        for part, term in zip(("subject", "predicate", "object"), terms(labels), strict=True):
            yield f"{name} <{RDF}{part}> {term} .\n"
        yield f'{name} <{PROBABILITY}> "{probability:.9g}"^^<{DOUBLE}> .\n'
