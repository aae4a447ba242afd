"""RDF files: what becomes of IRIs, literals, blank nodes and prefixes; errors with file and line; packing."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest

import staypositive as sp
from staypositive.errors import DataError
from staypositive.graph import RdfTerms, read_triples
from staypositive.graph.readers import rdf as rule

pytest.importorskip("pyoxigraph")

TURTLE = """@prefix ex: <http://e.org/> . @prefix p: <http://e.org/people/> .
p:ada ex:knows p:bob ; ex:age 36 ; ex:name "Ada"@en .
p:bob ex:lives [ ex:in ex:Paris ] .
_:x ex:knows p:ada .
"""
E = "http://e.org/"
WHOLE = [
    (f"{E}people/ada", f"{E}knows", f"{E}people/bob"),
    ("_:b1", f"{E}in", f"{E}Paris"),
    (f"{E}people/bob", f"{E}lives", "_:b1"),
    ("_:b2", f"{E}knows", f"{E}people/ada"),
]


def triples(path: Path, **options: object) -> list[tuple[str, ...]]:
    return list(zip(*read_triples(path, terms=RdfTerms(**options)).columns, strict=True))  # type: ignore[arg-type]


@pytest.fixture
def turtle(tmp_path: Path) -> Path:
    (tmp_path / "x.ttl").write_text(TURTLE, "utf-8")
    return tmp_path / "x.ttl"


def test_literals_are_left_out_and_counted(turtle: Path) -> None:
    read = read_triples(turtle)
    assert sorted(zip(*read.columns, strict=True)) == sorted(WHOLE)
    assert read.notes == ("2 statements with a literal left out",)
    assert read.source.rows == 4


def test_literals_are_kept_as_n_triples_write_them(turtle: Path) -> None:
    kept = {row[2] for row in triples(turtle, literals=True)}
    assert '"36"^^<http://www.w3.org/2001/XMLSchema#integer>' in kept
    assert '"Ada"@en' in kept


def test_blank_nodes_have_stable_names_or_are_left_out(turtle: Path) -> None:
    assert triples(turtle) == triples(turtle)
    read = read_triples(turtle, terms=RdfTerms(blank_nodes=False))
    assert list(zip(*read.columns, strict=True)) == [WHOLE[0]]
    assert "3 statements with a blank node left out" in read.notes


def test_prefixes_shorten_the_longest_namespace_first(turtle: Path) -> None:
    assert ("p:ada", "ex:knows", "p:bob") in triples(turtle, prefixes=True)
    assert ("e:people/ada", "e:knows", "e:people/bob") in triples(turtle, prefixes={"e": E})


def test_a_short_name_never_makes_two_labels_one(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text("<http://e.org/a> <http://e.org/r> <ex:a> .\n", "utf-8")
    assert triples(tmp_path / "x.nt", prefixes={"ex": E}) == [("http://e.org/a", "ex:r", "ex:a")]


def test_every_format_says_the_same(tmp_path: Path) -> None:
    import pyoxigraph

    quads = [
        pyoxigraph.Quad(*(pyoxigraph.NamedNode(f"{E}{part}") for part in row))
        for row in (("a", "r", "b"), ("b", "q", "c"))
    ]
    for suffix, name in (
        ("nt", "N_TRIPLES"),
        ("ttl", "TURTLE"),
        ("rdf", "RDF_XML"),
        ("nq", "N_QUADS"),
        ("trig", "TRIG"),
    ):
        data = pyoxigraph.serialize(
            quads if suffix in ("nq", "trig") else [quad.triple for quad in quads],
            format=getattr(pyoxigraph.RdfFormat, name),
        )
        (tmp_path / f"x.{suffix}").write_bytes(data)
        (tmp_path / f"x.{suffix}.gz").write_bytes(gzip.compress(data))
        expected = [(f"{E}a", f"{E}r", f"{E}b"), (f"{E}b", f"{E}q", f"{E}c")]
        assert sorted(triples(tmp_path / f"x.{suffix}")) == expected
        assert sorted(triples(tmp_path / f"x.{suffix}.gz")) == expected


def test_many_statements_are_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "ROWS", 3)
    lines = [f"<x:{i}> <x:r> {'<x:0>' if i % 3 else chr(34) + 'l' + chr(34)} .\n" for i in range(11)]
    (tmp_path / "x.nt").write_text("".join(lines), "utf-8")
    read = read_triples(tmp_path / "x.nt")
    assert list(read.lines) == [2, 3, 5, 6, 8, 9, 11]
    assert read.columns[0] == ["x:1", "x:2", "x:4", "x:5", "x:7", "x:8", "x:10"]


def test_faults_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.nt"
    path.write_text("<x:a> <x:r> <x:b> .\n<x:a> <x:r> oops .\n", "utf-8")
    with pytest.raises(DataError, match=r"x\.nt:2: not valid RDF: Parser error at line 2"):
        read_triples(path)
    path.write_text('<x:a> <x:r> "only a literal" .\n', "utf-8")
    with pytest.raises(DataError, match=r"x\.nt: no triples here \(1 statements with a literal left out\)"):
        read_triples(path)
    packed = tmp_path / "x.nt.gz"
    packed.write_bytes(gzip.compress(b"<x:a> <x:r> <x:b> .\n" * 5000)[:-30])
    with pytest.raises(DataError, match=r"x\.nt\.gz: the gzip data is damaged"):
        read_triples(packed)


def test_blank_nodes_of_two_files_are_different(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.nt").write_text('_:a <x:r> <x:b> .\n<x:b> <x:r> _:a .\n<x:b> <x:r> "1" .\n', "utf-8")
    with caplog.at_level(logging.WARNING):
        graph = sp.load_graph(tmp_path)
    assert list(graph.entities) == ["_:train-b1", "x:b", "_:valid-b1", "_:test-b1"]
    assert "train.nt: 1 statements with a literal left out" in graph.notes
    assert any("train.nt: 1 statements with a literal left out" in message for message in caplog.messages)


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = b"<x:a> <x:r> <x:b> .\n"
    (tmp_path / "x.nt.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
    (tmp_path / "x.tsv.zst").write_bytes(zstandard.ZstdCompressor().compress(b"a\tr\tb\n") * 2)
    assert triples(tmp_path / "x.nt.zst") == [("x:a", "x:r", "x:b")]
    assert triples(tmp_path / "x.tsv.zst") == [("a", "r", "b")] * 2
    (tmp_path / "y.tsv.zst").write_bytes(zstandard.ZstdCompressor().compress(b"a\tr\tb\n" * 9)[:-6])
    with pytest.raises(DataError, match="the zstd data is damaged: it ends before its last frame does"):
        read_triples(tmp_path / "y.tsv.zst")


XML = (
    '<?xml version="1.0"?><!DOCTYPE rdf:RDF [{}]><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:e="http://x/"><rdf:Description rdf:about="http://x/a"><e:p rdf:resource="{}"/></rdf:Description></rdf:RDF>'
)


def test_entities_for_namespaces_are_read(tmp_path):
    path = tmp_path / "x.rdf"
    for padding in ("", " " * 8170, " " * 65500):  # a declaration may lie across two pieces
        path.write_text(XML.format(f'{padding}<!ENTITY ex "http://example.org/">', "&ex;b"), "utf-8")
        assert list(read_triples(path).entities) == ["http://x/a", "http://example.org/b"]


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY l0 "lol"><!ENTITY l1 "&l0;&l0;">', '<!ENTITY l0 "a>"><!ENTITY l1 "b&l0;">', '<!ENTITY x SYSTEM "file:///etc/hostname">',
        "<!ENTITY x '&#38;l0;'>", f'<!ENTITY x "{"a" * 201}">', '<!ENTITY % x "y">', '<!ENTITY a"b" "&x;">',
        " " * 8190 + '<!ENTITY l1 "&l0;&l0;">',
    ],
)  # fmt: skip
def test_entities_that_grow_are_refused(tmp_path, declared):
    path = tmp_path / "x.rdf"
    path.write_text(XML.format(declared, "b"), "utf-8")
    with pytest.raises(DataError, match=r"x\.rdf: it declares an entity that is not short, plain text"):
        read_triples(path)
