"""RDF files: N-Triples, Turtle, RDF/XML, N-Quads and TriG, through pyoxigraph (extra `rdf`), as a stream."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import LabelledTriples, Place, Source
from staypositive.graph.readers.opening import opened, plain_suffix
from staypositive.graph.readers.terms import RdfTerms, Statements, literal_label

FORMATS = {
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".nq": "N_QUADS",
    ".trig": "TRIG",
}  # graph names of the last two are passed over


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
        parser = library.parse(
            stream, format=getattr(library.RdfFormat, FORMATS[plain_suffix(path)]), base_iri=path.absolute().as_uri()
        )
        try:
            add_quads(parser, statements)
        except SyntaxError as error:
            raise DataError(f"not valid RDF: {error.msg}", path, error.lineno) from None
        except (OSError, DataError) as error:
            raise stream.failure or error from None
        declared = dict(parser.prefixes)
        return statements.finish(Source(path.name, stream.sha256(), 0), declared, [])


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
