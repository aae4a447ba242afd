"""The cache of encoded graphs: the same graph back, and nothing worse than a fresh read when it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from staypositive.errors import DataError
from staypositive.graph import KnowledgeGraph
from staypositive.graph.encoded import cached, read_encoded, write_encoded


@pytest.fixture
def graph(build) -> KnowledgeGraph:
    return build(["a r nan", "b r a", "b r a"], ["a r b 1", "a r a -1"], ["b q new"])


class Maker:
    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.calls = graph, 0

    def __call__(self) -> KnowledgeGraph:
        self.calls += 1
        return self.graph


def test_the_second_time_it_is_read(graph: KnowledgeGraph, tmp_path: Path) -> None:
    make = Maker(graph)
    first, second = (cached(tmp_path, ["x", "y"], make) for _ in range(2))
    assert make.calls == 1
    assert first is graph
    assert second.fingerprint == graph.fingerprint
    assert (second.name, second.sources, second.notes) == (graph.name, graph.sources, graph.notes)
    assert second.train.labels is None
    assert second.valid.labels is not None
    cached(tmp_path, ["x", "z"], make)  # made from something else
    assert make.calls == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_entry_is_made_anew(graph: KnowledgeGraph, tmp_path: Path, damage: str) -> None:
    make = Maker(graph)
    cached(tmp_path, ["x"], make)
    (path,) = tmp_path.iterdir()
    path.write_bytes({"cut": path.read_bytes()[:-40], "empty": b"", "other": b"PK\x05\x06" + bytes(18)}[damage])
    assert cached(tmp_path, ["x"], make).fingerprint == graph.fingerprint
    assert make.calls == 2
    cached(tmp_path, ["x"], make)
    assert make.calls == 2


def repacked(path: Path, change: dict[str, np.ndarray]) -> None:
    """Alter arrays of a file, its own checksums being right again."""
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **arrays | change)


def test_altered_contents_are_found_by_their_hash(
    graph: KnowledgeGraph, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_encoded(tmp_path / "g.npz", graph)
    assert read_encoded(tmp_path / "g.npz").fingerprint == graph.fingerprint
    repacked(tmp_path / "g.npz", {"train": graph.arrays()["train"][::-1].copy()})
    with pytest.raises(DataError, match=r"g\.npz: not an encoded graph: .* hash that it states"):
        read_encoded(tmp_path / "g.npz")
    make = Maker(graph)
    cached(tmp_path / "cache", ["x"], make)
    assert not caplog.messages
    (path,) = (tmp_path / "cache").iterdir()
    repacked(path, {"test": graph.arrays()["test"] * 0})
    assert cached(tmp_path / "cache", ["x"], make) is graph
    assert path.name in caplog.text
    assert "damaged and made anew" in caplog.text


def test_a_cache_that_cannot_be_written_is_no_error(graph: KnowledgeGraph, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    assert cached(tmp_path / "file" / "cache", ["x"], Maker(graph)) is graph
