"""RDF files: N-Triples, Turtle, RDF/XML, N-Quads and TriG, through pyoxigraph (extra `rdf`), as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import LabelledTriples, Place, Source
from staypositive.graph.readers.opening import Opened, opened, plain_suffix
from staypositive.graph.readers.terms import RdfTerms, Statements, literal_label

FORMATS = {
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".nq": "N_QUADS",
    ".trig": "TRIG",
}  # graph names of the last two are passed over
XML = ("RDF_XML",)
AHEAD = 1024
"""Bytes that the longest declaration of an entity can have."""
_TOKEN = re.compile(rb"<!ENTITY")
_DECLARATION = re.compile(rb'<!ENTITY\s{1,50}[\w.:-]{1,100}\s{1,50}"[^"&%]{0,200}"\s{0,50}>')


def import_pyoxigraph() -> Any:
    """Return the library, or say how to get it."""
    try:
        import pyoxigraph
    except ModuleNotFoundError:
        raise InputError("RDF needs pyoxigraph: pip install 'staypositive[rdf]'") from None
    return pyoxigraph


def read_rdf(path: Path, terms: RdfTerms, scope: str = "") -> LabelledTriples:
    """Read one RDF file, packed or not; its statements are streamed."""
    library = import_pyoxigraph()
    statements = Statements(Place(path, "statement"), terms, scope)
    with opened(path) as stream:
        name = FORMATS[plain_suffix(path)]
        source = PlainEntities(stream) if name in XML else stream
        parser = library.parse(source, format=getattr(library.RdfFormat, name), base_iri=path.absolute().as_uri())
        try:
            add_quads(parser, statements)
        except SyntaxError as error:
            raise DataError(f"not valid RDF: {error.msg}", path, error.lineno) from None
        except (OSError, DataError) as error:
            raise stream.failure or error from None
        declared = dict(parser.prefixes)
        return statements.finish(Source(path.name, stream.sha256(), 0), declared, [])


class PlainEntities:
    """XML as it passes: an entity may be short for a namespace, never for others, which could grow to any size."""

    def __init__(self, stream: Opened) -> None:
        self.stream, self._ready, self._is_over = stream, b"", False

    def read(self, size: int) -> bytes:
        """Return up to so many bytes, in which no declaration begins that does not end as it should."""
        while len(self._ready) < size + AHEAD and not self._is_over:
            data = self.stream.read(max(size, AHEAD))
            self._ready, self._is_over = self._ready + data, not data
        for found in _TOKEN.finditer(self._ready):
            if found.start() < size and not _DECLARATION.match(self._ready, found.start()):
                said = "it declares an entity that is not short, plain text in double quotes"
                self.stream.failure = DataError(said, self.stream.path)
                raise self.stream.failure
        data, self._ready = self._ready[:size], self._ready[size:]
        return data


def add_quads(quads: Iterable[Any], statements: Statements) -> None:
    """Hand the statements that pyoxigraph parsed on."""
    library = import_pyoxigraph()
    iri, blank, literal = library.NamedNode, library.BlankNode, library.Literal

    def term(node: Any) -> tuple[str, str]:
        kind = type(node)
        if kind is iri:
            return "iri", node.value
        if kind is blank:
            return "blank", node.value
        if kind is literal:
            return "literal", literal_label(node.value, node.language, node.datatype.value)
        return "triple", ""

    for quad in quads:
        statements.add(term(quad.subject), quad.predicate.value, term(quad.object))
