"""Graphs larger than memory: what comes out equals a twin made by hand, whatever the shards and the memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from staypositive.errors import DataError, InputError, SettingError, UnknownLabelError
from staypositive.files import sha256_bytes, sha256_file, to_json
from staypositive.graph import SPLITS, StreamedGraph, Vocabulary, ingest, load_graph, open_streamed, write_encoded
from staypositive.graph.on_disk import parse_size
from staypositive.graph.on_disk.storage import GrowingArray, Job, Sizes, Spill, StoredArray, silent

kernels = pytest.importorskip("staypositive.graph.on_disk.kernels", reason="needs numba")
from staypositive.graph.on_disk import passes, vocabulary

LEAST = 128 << 20
Triple = tuple[str, str, str]


def draw(count: int, entities: int, seed: int = 0) -> list[Triple]:
    random = np.random.default_rng(seed)
    names = ["Zoë", "a label of two words", "x" * 40, *(f"e{i}" for i in range(entities))]
    ids = random.integers(len(names), size=(count, 2))
    relations = random.integers(7, size=count)
    return [(names[h], f"r{r}", names[t]) for (h, t), r in zip(ids.tolist(), relations.tolist(), strict=True)]


def write(path: Path, triples: Iterable[Triple]) -> Path:
    path.write_text("".join("\t".join(triple) + "\n" for triple in triples), "utf-8")
    return path


def decoded(graph: StreamedGraph) -> dict[str, list[Triple]]:
    return {
        name: [
            (graph.entities[h], graph.relations[r], graph.entities[t])
            for h, r, t in graph.split(name).triples.tolist()
        ]
        for name in SPLITS
    }


def said(graph: StreamedGraph) -> list[Triple]:
    return [triple for part in decoded(graph).values() for triple in part]


def test_every_triple_once(tmp_path: Path) -> None:
    triples = draw(5000, 300)
    write(tmp_path / "0.tsv", triples[:3000])
    write(tmp_path / "1.tsv", triples[2000:])
    graph = ingest([tmp_path / "0.tsv", tmp_path / "1.tsv"], tmp_path / "out", memory=LEAST)
    assert sorted(said(graph)) == sorted(set(triples))
    assert set(graph.entities) == {label for h, _, t in triples for label in (h, t)}
    assert set(graph.relations) == {relation for _, relation, _ in triples}
    assert graph.about == {
        "copies_dropped": 6000 - len(set(triples)), "unused_entities": 0, "unused_relations": 0,
    }  # fmt: skip
    assert [source.rows for source in graph.sources] == [3000, 3000]
    assert graph.counts()["train"] == len(set(triples))


def test_shards_and_memory_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triples = draw(4000, 500)
    whole = write(tmp_path / "whole.tsv", triples)
    plain = ingest(whole, tmp_path / "plain", memory=1 << 30, hold_out=50)

    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(5):
        text = "".join("\t".join(triple) + "\r\n" for triple in triples[::-1][number::5])
        (shards / f"part-{number}.txt.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(vocabulary, "SMALLEST_FILTER", 4)  # labels are forgotten and found again
    monkeypatch.setattr(Job, "piece", 997)  # pieces cut lines anywhere
    monkeypatch.setattr(Spill, "put", _always_to_disk(Spill.put))
    twin = ingest(shards, tmp_path / "twin", memory=LEAST, hold_out=50)
    assert twin.fingerprint == plain.fingerprint
    assert decoded(twin) == decoded(plain)
    assert not list(tmp_path.glob("*.part"))


def _always_to_disk(put):
    def spilled(self: Spill, rows, ends) -> None:
        self.most = -1
        put(self, rows, ends)

    return spilled


def test_hashes_that_do_not_fit_are_taken_slice_by_slice(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    hashes = {
        "entity": np.unique(random.integers(2**63 - 1, size=900)),
        "relation": np.unique(random.integers(99, size=9)),
    }
    ids = np.column_stack(
        [random.integers(len(hashes[kind]), size=5000) for kind in ("entity", "relation", "entity")]
    )
    for kind, own in hashes.items():
        np.save(tmp_path / f"{kind}-hashes.npy", own)
    columns = [hashes[kind][ids[:, i]] for i, kind in enumerate(("entity", "relation", "entity"))]
    np.save(tmp_path / "cells.npy", np.column_stack(columns))
    sizes = Sizes(len(hashes["entity"]), len(hashes["relation"]))
    job = Job(tmp_path, 24 * 4 * 100, silent)  # room for 100 hashes a pass: nine passes
    spill = passes.encode(job, sizes)
    found = np.concatenate([spill.take(part, "<i4").reshape(-1, 3) for part in range(len(spill))])
    assert len(spill) > 1
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, ids.tolist()))


def test_held_out_triples_leave_nothing_unseen(tmp_path: Path) -> None:
    triples = draw(3000, 400) + [(f"lonely{i}", "r0", "e1") for i in range(200)]
    graph = ingest(write(tmp_path / "a.tsv", triples), tmp_path / "out", memory=LEAST, hold_out=300)
    parts = decoded(graph)
    assert 0 < len(parts["valid"]) <= 300
    assert abs(len(parts["valid"]) - len(parts["test"])) <= 1
    assert not set(parts["train"]) & set(parts["valid"] + parts["test"])
    assert sorted(said(graph)) == sorted(set(triples))
    assert graph.seen_entities.all()
    assert graph.seen_relations.all()
    held = sum(f"lonely{i}" in h for i in range(200) for h, _, _ in parts["valid"] + parts["test"])
    assert held == 0


def test_more_held_out_than_there_is(tmp_path: Path) -> None:
    graph = ingest(write(tmp_path / "a.tsv", [("a", "r", "b")]), tmp_path / "out", memory=LEAST, hold_out=9)
    assert graph.counts() == {"entities": 2, "relations": 1, "train": 1, "valid": 0, "test": 0}


def test_numbers_are_ids_as_they_are(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    ids = np.column_stack(
        [random.integers(90, size=500), random.integers(5, size=500), random.integers(90, size=500)]
    )
    ids[0] = [99, 6, 99]
    np.save(tmp_path / "0.npy", ids[:200].astype(np.int32))
    np.save(tmp_path / "1.npy", ids[200:])
    graph = ingest(tmp_path, tmp_path / "out", memory=LEAST)
    assert sorted(map(tuple, graph.train.triples.tolist())) == sorted(set(map(tuple, ids.tolist())))
    used = len(np.unique(ids[:, [0, 2]]))
    assert len(graph.entities) == 100
    assert graph.about["unused_entities"] == 100 - used
    assert graph.about["unused_relations"] == 7 - len(np.unique(ids[:, 1]))
    assert graph.entities[-1] == "99"
    assert graph.entities.id("7") == 7
    assert list(graph.relations) == list(graph.relations.labels) == [str(i) for i in range(7)]
    for unknown in ("100", "07", "seven", "²"):
        assert unknown not in graph.entities
        with pytest.raises(UnknownLabelError, match="Did you mean '0' or '99'"):
            graph.entities.id(unknown)
    assert graph.entities == open_streamed(tmp_path / "out").entities
    assert hash(graph.entities) == hash(open_streamed(tmp_path / "out").entities)


def test_the_vocabulary_on_disk_is_a_vocabulary(tmp_path: Path) -> None:
    triples = draw(400, 60)
    graph = ingest(write(tmp_path / "a.tsv", triples), tmp_path / "out", memory=LEAST)
    entities, twin = graph.entities, Vocabulary("entity", graph.entities.labels)
    assert entities == twin
    assert entities != graph.relations
    assert hash(entities) == hash(open_streamed(tmp_path / "out").entities)
    assert entities.ids(twin.labels).tolist() == list(range(len(twin)))
    assert [entities[i] for i in range(len(entities))] == list(entities) == list(twin)
    assert "Zoë" in entities
    assert "nobody" not in entities
    assert "" not in entities
    assert 3 not in entities
    with pytest.raises(UnknownLabelError, match=r"no entity is called 'ZOË' in this graph\. Did you mean 'Zoë'"):
        entities.id("ZOË")
    with pytest.raises(UnknownLabelError, match="Did you mean 'a label of two words'"):
        entities.ids(["Zoë", "A_label_of_two_words"])
    with pytest.raises(IndexError):
        entities[len(entities)]


def test_ids_follow_hashes_that_spread_evenly() -> None:
    labels = [f"e{i}" for i in range(20_000)]
    lengths = np.array([len(label) for label in labels])
    data = np.frombuffer("".join(labels).encode(), dtype=np.uint8)
    hashes, checks = np.empty((2, len(labels)), dtype=np.int64)
    kernels.hash_labels(data, np.cumsum(lengths) - lengths, lengths, hashes, checks)
    assert len(np.unique(hashes)) == len(np.unique(checks)) == len(labels)
    assert (hashes >= 0).all()
    counts = np.bincount(hashes >> 59, minlength=16)
    assert ((counts - 1250) ** 2 / 1250).sum() < 45  # chi-square of 15 degrees: one in ten thousand is above
    assert abs(np.corrcoef(hashes.astype(float), checks.astype(float))[0, 1]) < 0.03


def test_two_labels_of_one_hash_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kernels.hash_labels

    def clashing(data, starts, lengths, hashes, checks) -> None:
        honest(data, starts, lengths, hashes, checks)
        hashes[:] = 5

    monkeypatch.setattr(kernels, "hash_labels", clashing)
    with pytest.raises(DataError, match=r"'[ab]' and '[ab]' have the same hash of 63 bits"):
        ingest(write(tmp_path / "a.tsv", [("a", "r", "b")]), tmp_path / "out", memory=LEAST)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.part").exists()


def test_parquet_shards(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    triples = draw(2000, 100)
    twin = ingest(write(tmp_path / "a.tsv", triples), tmp_path / "twin", memory=LEAST)
    heads, relations, tails = zip(*triples, strict=True)
    for number, kind in enumerate(
        (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    ):
        columns = {"object": tails, "year": range(2000), "subject": heads, "predicate": relations}
        table = pyarrow.table(
            {name: pyarrow.array(cells).cast(kind) if name != "year" else cells for name, cells in columns.items()}
        )
        parquet.write_table(table.slice(number * 700, 700), tmp_path / f"{number}.parquet", row_group_size=300)
    graph = ingest(str(tmp_path / "*.parquet"), tmp_path / "out", memory=LEAST)
    assert graph.fingerprint == twin.fingerprint
    ids = np.arange(30).reshape(10, 3)
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    parquet.write_table(pyarrow.table({name: ids[:, i] for i, name in enumerate("hrt")}), numbers / "a.parquet")
    assert sorted(ingest(numbers, tmp_path / "ids", memory=LEAST).train.triples.tolist()) == ids.tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"h": ["a", None], "r": ["r", "r"], "t": ["b", "b"]}, r"0\.parquet: row 2: the head is missing"),
        ({"h": ["a", "a"], "r": [1, 2], "t": ["b", "b"]}, "all text or all whole numbers"),
        ({"h": [0.5], "r": [0.5], "t": [0.5]}, "found a column of double"),
        ({"h": ["a"], "r": ["r"], "t": ["b"], "label": [-1]}, "facts, all alike; leave the column 'label' out"),
        ({"h": ["a", " "], "r": ["r", "r"], "t": ["b", "b"]}, "row 2: the head is empty"),
        ({"h": ["a"], "r": ["r"]}, "three columns or more"),
    ],
)
def test_parquet_that_cannot_be_streamed(tmp_path: Path, columns: dict, message: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table(columns), tmp_path / "0.parquet")
    if message.startswith("found"):
        columns = {name: pyarrow.array(cells).cast(pyarrow.float64()) for name, cells in columns.items()}
        nested = {name: pyarrow.array([[1.0]]) for name in columns}
        parquet.write_table(pyarrow.table(nested), tmp_path / "0.parquet")
        message = "found a column of list"
    with pytest.raises(DataError, match=message):
        ingest(tmp_path, tmp_path / "out", memory=LEAST)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tr\tb\n\na\tr\n", r"0\.tsv:3: expected 3 tab-separated columns, found 2"),
        (b"a\tr\tb\t1\n", r"0\.tsv:1: expected 3 tab-separated columns, found 4"),
        (b"a\tr\tb\n\n\nc\t \td\n", r"0\.tsv:4: the relation is empty"),
        (b"a\tr\tb\nc\tr\t\xff\n", r"0\.tsv:2: invalid UTF-8 \(byte 0xff\)"),
        (b"", "no triples here"),
        (b"head\trelation\ttail\n", "no triples here"),
    ],
)
def test_text_that_is_not_triples(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "0.tsv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        ingest(tmp_path / "0.tsv", tmp_path / "out", memory=LEAST)
    assert not (tmp_path / "out").exists()


def test_headers_marks_and_last_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbfhead\trelation\ttail\r\na\tr\tb\r\n\r\nb\tr\tc")
    graph = ingest(tmp_path / "a.tsv", tmp_path / "out", memory=LEAST)
    assert sorted(said(graph)) == [("a", "r", "b"), ("b", "r", "c")]
    as_triple = ingest(tmp_path / "a.tsv", tmp_path / "again", memory=LEAST, header=False)
    assert ("head", "relation", "tail") in said(as_triple)


def test_shards_of_one_kind(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", [("a", "r", "b")])
    np.save(tmp_path / "b.npy", np.zeros((2, 3), dtype=np.int64))
    with pytest.raises(DataError, match=r"b\.npy: whole numbers here, but labels in an earlier shard"):
        ingest(tmp_path, tmp_path / "out", memory=LEAST)
    write(tmp_path / "c.tsv", [("a", "r", "b")])
    with pytest.raises(DataError, match=r"c\.tsv: labels here, but whole numbers in an earlier shard"):
        ingest([tmp_path / "b.npy", tmp_path / "c.tsv"], tmp_path / "out", memory=LEAST)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[0, 0, 1], [3, 0, -1]]), "row 2: the tail is -1; numbers are ids from 0 to 2147483646"),
        (np.zeros((2, 4), dtype=np.int64), r"expected whole numbers of shape \(n, 3\), found int64 of \(2, 4\)"),
        (np.zeros((2, 3)), r"expected whole numbers of shape \(n, 3\), found float64"),
    ],
)
def test_arrays_that_are_not_ids(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=message):
        ingest(tmp_path / "a.npy", tmp_path / "out", memory=LEAST)
    (tmp_path / "a.npy").write_bytes(b"not an array")
    with pytest.raises(DataError, match=r"a\.npy: not a readable array"):
        ingest(tmp_path / "a.npy", tmp_path / "out", memory=LEAST)


def test_files_that_are_no_shards(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file, no pattern that some file fits, and no folder of shards"):
        ingest(tmp_path / "*.tsv", tmp_path / "out")
    (tmp_path / "a.csv").write_text("a,r,b\n", "utf-8")
    with pytest.raises(InputError, match=r"a\.csv cannot be streamed: shards end in \.tsv"):
        ingest(tmp_path / "a.csv", tmp_path / "out")


def test_settings_are_checked(tmp_path: Path) -> None:
    shard = write(tmp_path / "a.tsv", [("a", "r", "b")])
    with pytest.raises(SettingError, match="memory must be at least 128 MB, got 1 MB"):
        ingest(shard, tmp_path / "out", memory=1 << 20)
    with pytest.raises(SettingError, match="hold_out must not be negative"):
        ingest(shard, tmp_path / "out", hold_out=-1)
    for text in ("2", "GB", "2 stones", "infGB"):
        with pytest.raises(SettingError, match="expected a size such as 512MB or 2GB"):
            parse_size(text)


def test_folders_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    shard, out = write(tmp_path / "a.tsv", [("a", "r", "b")]), tmp_path / "out"
    first = ingest(shard, out, memory=LEAST)
    with pytest.raises(InputError, match="already holds a streamed graph; use --force"):
        ingest(shard, out, memory=LEAST)
    write(shard, [("a", "r", "b"), ("b", "r", "c")])
    assert ingest(shard, out, memory=LEAST, force=True).fingerprint != first.fingerprint
    work = tmp_path / "other.part"
    work.mkdir()
    (work / "mine.txt").touch()
    with pytest.raises(InputError, match=r"other\.part is in the way"):
        ingest(shard, tmp_path / "other", memory=LEAST)
    (work / "ingesting").touch()  # as one cut short by a kill leaves it
    ingest(shard, tmp_path / "other", memory=LEAST)
    assert not work.exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(InputError, match="holds other files"):
        ingest(shard, tmp_path / "mine", memory=LEAST, force=True)


def test_damage_is_found(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ingest(write(tmp_path / "a.tsv", [("a", "r", "b")]), out, memory=LEAST)
    labels = out / "entity-labels.utf8"
    labels.write_bytes(b"xy")
    with pytest.raises(DataError, match=r"entity-labels\.utf8 is damaged: expected 2 bytes of SHA-256"):
        open_streamed(out)
    labels.unlink()
    with pytest.raises(DataError, match=r"entity-labels\.utf8 is missing"):
        open_streamed(out)
    manifest = json.loads((out / "streamed.json").read_text("utf-8"))
    (out / "streamed.json").write_text(json.dumps(manifest | {"name": "other"}), "utf-8")
    with pytest.raises(DataError, match="do not have the hash that it states"):
        open_streamed(out)
    (out / "streamed.json").write_text(json.dumps(manifest | {"format": 9}), "utf-8")
    with pytest.raises(DataError, match="format 9; this staypositive reads up to 1"):
        open_streamed(out)
    (out / "streamed.json").write_text("{", "utf-8")
    with pytest.raises(DataError, match="damaged: JSONDecodeError"):
        open_streamed(out)
    with pytest.raises(DataError, match="there is no streamed graph in"):
        open_streamed(tmp_path)


def test_loading_by_folder_and_the_rest_in_memory(tmp_path: Path) -> None:
    triples = draw(900, 40)
    out = tmp_path / "out"
    ingest(write(tmp_path / "a.tsv", triples), out, memory=LEAST, hold_out=20, name="large")
    graph = load_graph(out)
    assert isinstance(graph, StreamedGraph)
    assert graph.name == "large"
    assert len(graph.train) == graph.counts()["train"] == len(graph.train.facts)
    assert graph.train.first(3).tolist() == graph.train.triples[:3].tolist()
    assert graph.train.fact_weights is None
    assert graph.valid.first(2).tolist() == graph.valid.triples[:2].tolist()
    assert len(np.unique(graph.keys(graph.facts()))) == len(set(triples))


def test_a_streamed_graph_as_one_encoded_file(tmp_path: Path) -> None:
    graph = ingest(write(tmp_path / "x.tsv", draw(500, 40)), tmp_path / "out", memory=LEAST, hold_out=10)
    write_encoded(tmp_path / "x.npz", graph)
    assert decoded(load_graph(tmp_path / "x.npz")) == decoded(graph)


def test_arrays_on_disk(tmp_path: Path) -> None:
    rows = np.arange(60).reshape(20, 3)
    with GrowingArray(tmp_path / "a.npy", "<i4", 3) as growing:
        for first in range(0, 20, 7):
            growing.append(rows[first : first + 7])
    stored = StoredArray(tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), rows)
    assert np.array_equal(stored.read(5, 11), rows[5:11])
    assert np.array_equal(stored.read(18, 99), rows[18:])


def test_memory_stays_below_the_ceiling(tmp_path: Path) -> None:
    """By what Python and NumPy ask for: what of it is resident, and when it is given back, is the system's choice."""
    random = np.random.default_rng(0)
    heads, tails = random.integers(300_000, size=(2, 1_000_000)).tolist()
    rows = (
        f"http://example.org/entity/{h}\tr{h % 9}\thttp://example.org/entity/{t}\n"
        for h, t in zip(heads, tails, strict=True)
    )
    with (tmp_path / "a.tsv").open("w", encoding="utf-8") as stream:
        stream.writelines(rows)
    ingest(write(tmp_path / "tiny.tsv", [("a", "r", "b")]), tmp_path / "tiny", memory=LEAST)  # compiles the kernels
    tracemalloc.start()
    try:
        graph = ingest(tmp_path / "a.tsv", tmp_path / "out", memory=LEAST, hold_out=100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LEAST  # as strings, the cells alone would take three times as much
    assert len(graph.entities) == len(set(heads) | set(tails))


def forged(folder: Path, change: Callable[[dict[str, Any]], object], arrays: dict[str, Any] | None = None) -> Path:
    """Change what a streamed graph holds, and put its hashes right."""
    for name, array in (arrays or {}).items():
        np.save(folder / name, array)
    path = folder / "streamed.json"
    about = json.loads(path.read_text("utf-8"))
    about.pop("sha256")
    about["files"] = {name: {"sha256": sha256_file(folder / name)} for name in about["files"]}
    change(about)
    path.write_bytes(to_json(about | {"sha256": sha256_bytes(to_json(about))}))
    return folder


@pytest.mark.parametrize(
    ("change", "arrays"),
    [
        (lambda about: about.pop("counts"), None),
        (lambda about: about.update(counts=None), None),
        (lambda about: about["counts"].pop("entities"), None),
        (lambda about: about.update(files=[]), None),
        (lambda about: about["files"].update({"../other.npy": {}}), None),
        (lambda about: about["files"].update({"train.npy": 3}), None),
        (lambda about: about.update(sources=[{"a": 1}]), None),
        (lambda about: about.update(name=5), None),
        (lambda about: about.update(format="1"), None),
        (lambda about: None, {"train.npy": np.zeros((5, 2), dtype=np.int32)}),
        (lambda about: None, {"train.npy": np.zeros((5, 3))}),
        (lambda about: None, {"train.npy": np.full((5, 3), 10**6, dtype=np.int32)}),
        (lambda about: None, {"valid.npy": np.full((5, 3), -1, dtype=np.int32)}),
    ],
)
def test_a_forged_graph_is_refused(
    change: Callable[[dict[str, Any]], object], arrays: dict[str, Any] | None, tmp_path: Path
) -> None:
    """Hashes say that a folder is whole, not what it is."""
    write(tmp_path / "0.tsv", draw(200, 30))
    ingest(tmp_path / "0.tsv", tmp_path / "out", memory=LEAST, hold_out=5)
    assert len(open_streamed(forged(tmp_path / "out", lambda about: None)).train) > 100
    with pytest.raises(DataError):
        open_streamed(forged(tmp_path / "out", change, arrays))


def test_a_deeply_nested_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "streamed.json").write_text("[" * 100_000, "ascii")
    with pytest.raises(DataError, match="damaged"):
        open_streamed(tmp_path)
