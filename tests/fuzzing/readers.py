"""Target `readers`: files of triples of every kind, folders, encoded graphs and endpoints' answers, mutated."""

from __future__ import annotations

import gzip
import io
import random
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzzing.cases import Target, named_refusal
from fuzzing.drawing import HOSTILE, anything, as_json, mutated_bytes, mutated_json, text
from staypositive.errors import StayPositiveError
from staypositive.graph import KnowledgeGraph, RdfTerms, Sparql, load_graph, read_triples
from staypositive.graph.encoded import read_encoded
from staypositive.graph.labelled import LabelledTriples
from staypositive.graph.readers import read_sparql

TSV = b"a\tknows\tb\nb\tknows\tc\nc\tlikes\ta\na\tlikes\tc\n"
SIGNED = b"a\tknows\tb\t1\nb\tknows\tc\t1\nc\tlikes\ta\t-1\na\tlikes\tc\t1\n"
WEIGHED = b"head\trelation\ttail\tconfidence\tlabel\na\tknows\tb\t0.5\t1\nb\tknows\tc\t1e-3\t1\nc\tlikes\ta\t2\t-1\n"
CSV = b'head,relation,tail\n"a, b",knows,"say ""hi"""\nb,knows,"two\nlines"\nc,likes,a\n'
NT = (
    b"<http://x/a> <http://x/p> <http://x/b> .\n_:n <http://x/p> <http://x/a> .\n"
    b'<http://x/b> <http://x/q> "1"^^<http://x/i> .\n'
)
TTL = b'@prefix ex: <http://x/> .\nex:a ex:p ex:b ; ex:q "l"@en , 5 .\n[ ex:p ex:a ] ex:q (ex:a ex:b) .\n'
XML = (
    b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e "http://x/">]><rdf:RDF '
    b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://x/">'
    b'<rdf:Description rdf:about="http://x/a"><e:p rdf:resource="&e;b"/></rdf:Description></rdf:RDF>'
)
TRIG = b"@prefix ex: <http://x/> .\nex:g { ex:a ex:p ex:b . }\n"
NQ = b"<http://x/a> <http://x/p> <http://x/b> <http://x/g> .\n"
ANSWER = {
    "head": {"vars": ["s", "p", "o"]},
    "results": {"bindings": [{
        "s": {"type": "uri", "value": "http://x/a"}, "p": {"type": "uri", "value": "http://x/p"},
        "o": {"type": "literal", "value": "l", "xml:lang": "en"},
    }, {
        "s": {"type": "bnode", "value": "n"}, "p": {"type": "uri", "value": "http://x/p"},
        "o": {"type": "uri", "value": "http://x/b"},
    }]},
}  # fmt: skip
TEXTS = {".tsv": (TSV, SIGNED, WEIGHED), ".txt": (TSV, SIGNED), ".csv": (CSV, WEIGHED.replace(b"\t", b","))}
RDF = {".nt": NT, ".ttl": TTL, ".rdf": XML, ".nq": NQ, ".trig": TRIG}


class Readers(Target):
    """One file, folder or answer a case."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kinds: dict[str, Callable[[random.Random], str]] = {
            "text": self.text, "packed": self.packed, "folder": self.in_folder, "encoded": self.encoded,
        }  # fmt: skip
        if find_spec("pyoxigraph"):
            kinds["rdf"] = self.rdf
        if find_spec("pyarrow"):
            kinds["parquet"] = self.parquet
            self.seeds = [_parquet(n) for n in range(3)]
        kinds["answer"] = self.answer
        self.kinds = [*kinds.values(), self.text]
        self.graph = load_graph({"train": np.array([["a", "r", "b"], ["b", "r", "c"]])})

    def case(self, draw: random.Random) -> str:
        return draw.choice(self.kinds)(draw)

    # -- each kind of input ---------------------------------------------------------------------------------------

    def text(self, draw: random.Random) -> str:
        suffix, data = self._text(draw)
        return self._read(draw, f"x{suffix}", data)

    def packed(self, draw: random.Random) -> str:
        suffix, data = self._text(draw)
        packed, ending = gzip.compress(data, 1), ".gz"
        if find_spec("zstandard") and draw.random() < 0.5:
            import zstandard

            packed, ending = zstandard.ZstdCompressor(1).compress(data), ".zst"
        if draw.random() < 0.5:
            packed = mutated_bytes(draw, packed, packed)
        return self._read(draw, f"x{suffix}{draw.choice((ending, ''))}", packed)

    def rdf(self, draw: random.Random) -> str:
        suffix = draw.choice(list(RDF))
        data = mutated_bytes(draw, RDF[suffix], RDF[draw.choice(list(RDF))])
        return self._read(draw, f"x{suffix}", data)

    def parquet(self, draw: random.Random) -> str:
        data = _drawn_parquet(draw) if draw.random() < 0.3 else draw.choice(self.seeds)
        if draw.random() < 0.7:
            data = mutated_bytes(draw, data, draw.choice(self.seeds))
        return self._read(draw, "x.parquet", data)

    def in_folder(self, draw: random.Random) -> str:
        folder = self.folder / "splits"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for split in ("train", "valid", "test", "valid_negatives"):
            if draw.random() < 0.9 - 0.5 * (split == "valid_negatives"):
                suffix, data = self._text(draw) if draw.random() < 0.4 else (".txt", TSV)
                (folder / f"{split}{suffix}").write_bytes(data)
        return self._checked(lambda: load_graph(folder), "splits")

    def encoded(self, draw: random.Random) -> str:
        path = self.folder / "x.npz"
        about: Any = {
            "name": "x", "entities": list(self.graph.entities), "relations": list(self.graph.relations),
            "sources": [], "notes": [], "fingerprint": self.graph.fingerprint,
        }  # fmt: skip
        arrays: dict[str, Any] = dict(self.graph.arrays())
        if draw.random() < 0.6:
            about = mutated_json(draw, about)
        if draw.random() < 0.5:
            name = draw.choice(("train", "valid", "test", "train_labels", "test_weights", text(draw) or "x"))
            arrays[name.replace("/", "").replace("\0", "") or "x"] = _drawn_array(draw)
        stream = io.BytesIO()
        written = np.frombuffer(as_json(draw, about), dtype=np.uint8)
        save = np.savez_compressed if draw.random() < 0.2 else np.savez
        try:
            arrays = {"about": written, **arrays}
            save(stream, **arrays)
        except (UnicodeEncodeError, ValueError, TypeError):  # such a name cannot be in a zip file, or is an option's
            return "not a case"
        data = stream.getvalue()
        path.write_bytes(mutated_bytes(draw, data, data) if draw.random() < 0.5 else data)
        return self._checked(lambda: read_encoded(path), path.name)

    def answer(self, draw: random.Random) -> str:
        form = draw.choice(("SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 5", "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o } LIMIT 5"))
        if form.startswith("CONSTRUCT"):
            data = mutated_bytes(draw, NT, TTL)
            if not find_spec("pyoxigraph"):
                return "not a case"
        else:
            data = as_json(draw, mutated_json(draw, ANSWER) if draw.random() < 0.9 else anything(draw))
        asked = Sparql("http://localhost/query", form)
        terms = RdfTerms(literals=draw.random() < 0.5)
        with patch("staypositive.graph.readers.sparql._post", return_value=data):
            return self._checked(lambda: read_sparql(asked, terms), "http://localhost/query", "the query selects")

    # -- what must hold -------------------------------------------------------------------------------------------

    def _text(self, draw: random.Random) -> tuple[str, bytes]:
        suffix = draw.choice(list(TEXTS))
        seed = draw.choice(TEXTS[suffix])
        if draw.random() < 0.3:  # lines of hostile cells
            between = "," if suffix == ".csv" else "\t"
            rows = [
                [draw.choice(HOSTILE) for _ in range(draw.choice((3, 3, 3, 4, 2)))] for _ in range(draw.randrange(6))
            ]
            seed += "\n".join(between.join(row) for row in rows).encode("utf-8", "surrogatepass")
        return suffix, mutated_bytes(draw, seed, draw.choice((TSV, CSV, SIGNED))) if draw.random() < 0.9 else seed

    def _read(self, draw: random.Random, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        header = draw.choice((None, None, True, False))
        terms = RdfTerms(literals=draw.random() < 0.5, blank_nodes=draw.random() < 0.8, prefixes=draw.random() < 0.3)
        whole = draw.random() < 0.3
        try:
            if whole:
                return self._checked(lambda: load_graph(path, header=header, terms=terms), name)
            return self._checked(lambda: read_triples(path, header, terms), name)
        finally:
            path.unlink()

    def _checked(self, read: Callable[[], LabelledTriples | KnowledgeGraph], *names: str) -> str:
        try:
            found = read()
        except StayPositiveError as error:
            return named_refusal(error, *names)
        parts = [found] if isinstance(found, LabelledTriples) else []
        if isinstance(found, KnowledgeGraph):
            found.fingerprint  # noqa: B018  # every label can be written, every id named
            assert len(found.train)
        for part in parts:
            assert len(part) == len(part.lines)
            assert part.ids.min(initial=0) >= 0
            assert part.ids[:, [0, 2]].max(initial=-1) < len(part.entities)
            assert part.ids[:, 1].max(initial=-1) < len(part.relations)
        for label in (*found.entities, *found.relations):
            assert label.strip(), "a blank label was let through"
            label.encode("utf-8")
        return "read"


def _parquet(number: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"head": ["a", "b", "c"], "relation": ["p", "p", "q"], "tail": ["b", "c", "a"]})
    if number:
        table = table.append_column("label", pa.array([1, 1, -1])).append_column(
            "confidence", pa.array([0.5, 1.0, 2.0])
        )
    stream = io.BytesIO()
    pq.write_table(table, stream, compression=("none", "snappy", "gzip")[number], use_dictionary=number != 1)
    return stream.getvalue()


def _drawn_parquet(draw: random.Random) -> bytes:
    """A good file with columns that hold anything."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: tuple[Any, ...] = (
        ["a", "b"], [1, 2], [1.5, None], [None, None], [True, False], [b"x", b"\xff"],
        [["a"], []], [{"k": 1}, {"k": 2}],
        ["a", None], [float("nan"), 1.0], ["", " "], [1, -1], [2**62, -1], pa.array(["a", "b"]).dictionary_encode(),
        pa.array([1, 2], pa.timestamp("s")), pa.array(["a",
        "b"], pa.large_string()), pa.array([1, 2], pa.decimal128(5)),
        pa.array([1, 2], pa.uint64()), [0.25, 0.5],
    )  # fmt: skip
    names = ["head", "relation", "tail", "label", "confidence", "s", "p", "o", "x", "head"]
    chosen = draw.sample(names, draw.randrange(1, 7))
    arrays = [pa.array(c) if isinstance(c, list) else c for c in (draw.choice(columns) for _ in chosen)]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, names=chosen), stream, row_group_size=draw.choice((1, 100)))
    return stream.getvalue()


def _drawn_array(draw: random.Random) -> Any:
    shape = draw.choice(((0, 3), (2, 3), (3,), (2, 2), (), (1, 3, 1), (3, 3)))
    kind = draw.choice(("i4", "i8", "u1", "u8", "f4", "f8", "?", "U3", "S3", "M8[s]", "c8", "f2"))
    values = np.array([draw.choice((0, 1, 1, 1, -1, 5)) for _ in range(int(np.prod(shape)))]).reshape(shape)
    with np.errstate(all="ignore"):
        return values.astype(kind) if kind[0] != "M" else values.astype("i8").astype(kind)
