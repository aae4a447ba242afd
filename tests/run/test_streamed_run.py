"""Runs on graphs that stay on disk: trained from there, saved by reference, and refused when the graph is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import staypositive as sp
from staypositive.errors import InputError, RunError
from staypositive.graph import StreamedSplit, ingest

pytest.importorskip("numba", reason="streamed graphs need numba")

SETTINGS = {"model": "simple", "dim": 8, "epochs": 2, "batch_size": 128, "threads": 1, "device": "cpu"}


def write(path: Path, count: int = 1500) -> Path:
    random = np.random.default_rng(0)
    lines = zip(
        random.integers(90, size=count), random.integers(4, size=count), random.integers(90, size=count), strict=True
    )
    path.write_text("".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in lines), "utf-8")
    return path


@pytest.fixture
def graph(tmp_path: Path) -> sp.KnowledgeGraph:
    return ingest(write(tmp_path / "a.tsv"), tmp_path / "graph", memory=128 << 20, hold_out=40)


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when somebody takes all triples into memory."""

    def refuse(self: StreamedSplit) -> None:
        raise AssertionError("all triples were asked for")

    monkeypatch.setattr(StreamedSplit, "triples", property(refuse))


def test_nothing_takes_the_facts_into_memory(
    graph: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        forbid(patched)
        run = sp.fit(graph, **SETTINGS)
        run.save(tmp_path / "run")
        twin = sp.load_run(tmp_path / "run")
    assert run.provenance["engine"] == "fused-cpu"
    assert run.provenance["graph_sha256"] == graph.fingerprint == twin.graph.fingerprint
    assert not any(record.validation for record in run.history)
    assert run.history[1].terms["facts"] < run.history[0].terms["facts"]
    assert torch.equal(twin.model.entities, run.model.entities)
    files = {path.name.split(".")[0]: path for path in (tmp_path / "run").iterdir()}
    assert not {"graph", "labels"} & set(files)
    assert json.loads(files["run"].read_text("utf-8"))["format"] == 2
    head = graph.entities[0]
    assert twin.predict(head, "r0", top=3).equals(run.predict(head, "r0", top=3))
    assert twin.evaluate("test")["ranking"]["queries"] == 2 * len(graph.test)


def test_training_is_the_seeds(graph: sp.KnowledgeGraph) -> None:
    one, two, other = (sp.fit(graph, **SETTINGS, seed=seed).model.entities for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_what_needs_all_facts_gets_them(graph: sp.KnowledgeGraph) -> None:
    run = sp.fit(graph, **SETTINGS | {"objective": "second-moment", "monitor": "mrr"})
    assert "mrr" in run.history[-1].validation
    added = run.with_entities([("newcomer", "r0", graph.entities[0])])
    assert "newcomer" in added.graph.entities
    assert added.graph.fingerprint != graph.fingerprint
    assert len(added.graph.train) == len(graph.train) + 1


def test_a_changed_graph_is_kept_whole(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(graph, **SETTINGS | {"bound": "identity"}).with_entities([("newcomer", "r0", graph.entities[0])])
    shutil.rmtree(tmp_path / "graph")
    run.save(tmp_path / "run")
    assert sp.load_run(tmp_path / "run").graph.fingerprint == run.graph.fingerprint
    manifest = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert manifest["format"] == 1  # nothing of it is new, so that older versions read it


def test_a_graph_that_is_gone_or_another(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    sp.fit(graph, **SETTINGS).save(tmp_path / "here" / "run")
    shutil.move(tmp_path / "graph", tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"trained on the streamed graph in .*graph, which is not there.*put it back"):
        sp.load_run(tmp_path / "here" / "run")
    ingest(write(tmp_path / "b.tsv", 900), tmp_path / "graph", memory=128 << 20)
    with pytest.raises(RunError, match="trained on another graph than the one in"):
        sp.load_run(tmp_path / "here" / "run")
    (tmp_path / "graph" / "train.npy").unlink()
    with pytest.raises(RunError, match=r"streamed graph that cannot be read: .*train\.npy is missing"):
        sp.load_run(tmp_path / "here" / "run")


def test_moved_together(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    sp.fit(graph, **SETTINGS).save(tmp_path / "run")
    (tmp_path / "new").mkdir()
    for name in ("graph", "run"):
        shutil.move(tmp_path / name, tmp_path / "new" / name)
    assert sp.load_run(tmp_path / "new" / "run").graph.fingerprint == graph.fingerprint


def test_a_split_is_not_for_folders(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a split is for a single file"):
        sp.load_graph(tmp_path / "graph", split=(0.8, 0.1, 0.1))
