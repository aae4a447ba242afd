"""RDF as a stream: N-Triples, Turtle, RDF/XML, N-Quads and TriG, by pyoxigraph (extra `rdf`); terms as labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, import_optional
from staypositive.files import sha256_file
from staypositive.graph.labelled import Encoder, LabelledTriples, Place
from staypositive.graph.readers.columns import TableOptions
from staypositive.graph.readers.opening import Opened, opened, plain_suffix

FORMATS = {
    ".nt": "N_TRIPLES", ".ttl": "TURTLE", ".rdf": "RDF_XML", ".owl": "RDF_XML", ".nq": "N_QUADS", ".trig": "TRIG",
}  # fmt: skip  # graph names of the last two are passed over
AHEAD = 1024  # bytes that the longest declaration of an entity can have
_TOKEN = re.compile(rb"<!ENTITY")
_DECLARATION = re.compile(rb'<!ENTITY\s{1,50}[\w.:-]{1,100}\s{1,50}"[^"&%]{0,200}"\s{0,50}>')
ROWS = 1 << 16  # statements encoded at once
Term = tuple[str, str]
"""A term's kind (iri, blank, literal or triple) and its text."""
Statement = tuple[Term, str, Term]
KINDS = {"NamedNode": "iri", "BlankNode": "blank", "Literal": "literal"}
STRING = "http://www.w3.org/2001/XMLSchema#string"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class RdfTerms:
    """How RDF terms become labels.

    An IRI is its own label, whole. `literals=True` keeps statements whose object is a literal, labelled as in
    N-Triples (`"3"^^<...>`, `"chat"@fr`); otherwise they are left out, counted and noted. Blank nodes are called
    `_:b1`, `_:b2`, ... in the order of their first mention, so that one file always gives one graph;
    `blank_nodes=False` leaves out, and counts, what mentions them. `prefixes=True` shortens IRIs by the prefixes that
    the file declares, and a mapping by its own (`{"ex": "http://example.org/"}`): `ex:Paris`.
    """

    literals: bool = False
    blank_nodes: bool = True
    prefixes: bool | Mapping[str, str] = False


def literal_label(value: str, language: str | None = None, datatype: str | None = None) -> str:
    r"""Return a literal as N-Triples write it.

    >>> print(literal_label('say "hi"', "en"))
    "say \"hi\""@en
    """
    text = f'"{value.translate(_ESCAPES)}"'
    if language:
        return f"{text}@{language}"
    return text if datatype in (None, STRING) else f"{text}^^<{datatype}>"


class Statements:
    """Gathers statements, leaves out what the rule leaves out, and counts that."""

    def __init__(self, place: Place, terms: RdfTerms, scope: str = "") -> None:
        self.encoder, self.terms = Encoder(place), terms
        self.left_out = {"literal": 0, "blank node": 0, "triple term": 0}
        self.seen = 0
        self.next_document(scope)

    def next_document(self, scope: str) -> None:
        """Begin a document, whose blank nodes are its own: `scope` stands before their numbers."""
        self.scope = scope
        self._blank: dict[str, str] = {}

    def take(self, statements: Iterable[Statement | None]) -> None:
        """Add statements; None is one that states nothing, and counts."""
        rows = self._kept(statements)
        while piece := list(islice(rows, ROWS)):
            heads, relations, tails, numbers = zip(*piece, strict=True)
            first, last = numbers[0], numbers[-1]
            whole = last - first + 1 == len(numbers)
            self.encoder.add((heads, relations, tails), range(first, last + 1) if whole else numbers)

    def _kept(self, statements: Iterable[Statement | None]) -> Iterator[tuple[str, str, str, int]]:
        """Yield the labels and the number of each statement that the rule leaves in."""
        for statement in statements:
            self.seen += 1
            if statement is None:
                continue
            head, relation, tail = statement
            if tail[0] == "literal" and not self.terms.literals:
                self.left_out["literal"] += 1
            elif "triple" in (head[0], tail[0]):
                self.left_out["triple term"] += 1
            elif "blank" in (head[0], tail[0]) and not self.terms.blank_nodes:
                self.left_out["blank node"] += 1
            else:
                yield self._label(*head), relation, self._label(*tail), self.seen

    def _label(self, kind: str, text: str) -> str:
        if kind != "blank":
            return text
        return self._blank.setdefault(text, f"_:{self.scope}b{len(self._blank) + 1}")

    def finish(
        self, name: str, sha256: str, declared: Mapping[str, str], notes: Sequence[str] = ()
    ) -> LabelledTriples:
        chosen = declared if self.terms.prefixes is True else self.terms.prefixes or {}
        self.encoder.entities = _shortened(self.encoder.entities, chosen)
        self.encoder.relations = _shortened(self.encoder.relations, chosen)
        left_out = [f"{n:,} statements with a {kind} left out" for kind, n in self.left_out.items() if n]
        return self.encoder.finish(name, sha256, [*notes, *left_out])


def _shortened(ids: dict[str, int], prefixes: Mapping[str, str]) -> dict[str, int]:
    """Return labels with their namespaces written as prefixes, the longest first; never two as one."""
    if not prefixes:
        return ids
    spaces = sorted(((space, prefix) for prefix, space in prefixes.items() if space), key=lambda s: -len(s[0]))
    short: dict[str, int] = {}
    for label, number in ids.items():
        space, prefix = next(((s, p) for s, p in spaces if label.startswith(s) and label != s), ("", ""))
        name = f"{prefix}:{label[len(space) :]}" if space else label
        short[label if name in short or (space and name in ids) else name] = number
    return short


def import_pyoxigraph() -> Any:
    return import_optional("pyoxigraph", "RDF", "rdf")


def read_rdf(path: Path, options: TableOptions, terms: RdfTerms, scope: str = "") -> LabelledTriples:
    options.refuse(str(path))
    library = import_pyoxigraph()
    statements = Statements(Place(path, "statement"), terms, scope)
    with opened(path) as stream:
        name = FORMATS[plain_suffix(path)]
        source = PlainEntities(stream) if name == "RDF_XML" else stream
        parser = library.parse(source, format=getattr(library.RdfFormat, name), base_iri=path.absolute().as_uri())
        try:
            statements.take(map(statement_of, parser))
        except SyntaxError as error:
            raise DataError(f"not valid RDF: {error.msg}", path, error.lineno) from None
        except (OSError, DataError) as error:
            raise stream.failure or error from None
        return statements.finish(path.name, sha256_file(path), dict(parser.prefixes))


class PlainEntities:
    """XML as it passes: an entity may be short for a namespace, never for others, which could grow to any size."""

    def __init__(self, stream: Opened) -> None:
        self.stream, self._ready, self._is_over = stream, b"", False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, in which no declaration begins that does not end as it should."""
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


def statement_of(quad: Any) -> Statement:
    return _term(quad.subject), quad.predicate.value, _term(quad.object)


def _term(node: Any) -> Term:
    kind = KINDS.get(type(node).__name__, "triple")
    if kind == "literal":
        return kind, literal_label(node.value, node.language, node.datatype.value)
    return kind, "" if kind == "triple" else node.value
