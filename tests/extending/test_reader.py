"""A reader of another kind of file, added from outside the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import staypositive as sp
from staypositive.errors import DataError
from staypositive.graph import READERS, register_reader

ROWS = [["Ada", "knows", "Grace"], ["Grace", "knows", "Alan"], ["Alan", "likes", "Ada"], ["Ada", "likes", "Alan"]]


@pytest.fixture(autouse=True)
def _undone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(READERS):
        monkeypatch.setitem(READERS, name, READERS[name])
    monkeypatch.delitem(READERS, ".triples.json", raising=False)


# --- what an extension writes ------------------------------------------------------------------------------------


def read_json_triples(path: Path) -> list[list[str]]:
    return json.loads(path.read_text("utf-8"))["triples"]


def register() -> None:
    register_reader(".triples.json", read_json_triples)


# --- what it gets ------------------------------------------------------------------------------------------------


def write(path: Path, rows: object = ROWS) -> Path:
    path.write_text(json.dumps({"triples": rows}), "utf-8")
    return path


def test_a_file_is_read_trained_on_and_predicted_from(tmp_path: Path) -> None:
    register()
    graph = sp.load_graph(write(tmp_path / "people.triples.json"), split=(1, 0, 0))
    assert graph.name == "people"
    assert graph.sources[0].name == "people.triples.json"
    assert graph.counts()["train"] == len(ROWS) == graph.sources[0].rows
    run = sp.fit(graph, dim=2, epochs=1)
    assert len(run.predict(head="Ada", relation="knows", top=2)) == 2


def test_folders_columns_and_errors_work_as_for_any_file(tmp_path: Path) -> None:
    register()
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.triples.json")
    assert sp.load_graph(tmp_path).counts()["test"] == len(ROWS)
    with pytest.raises(DataError, match=r"x\.triples\.json: row 2: the tail is missing"):
        sp.load_graph(write(tmp_path / "x.triples.json", [*ROWS[:1], ["a", "r", None]]))
    assert len(sp.load_graph(tmp_path / "x.triples.json", skip_blank=True).train) == 1
    with pytest.raises(
        DataError, match=r"x\.triples\.json: row 2: expected a triple \(head, relation, tail\), got \["
    ):
        sp.load_graph(write(tmp_path / "x.triples.json", [ROWS[0], ["a", "r"]]))
    with pytest.raises(sp.InputError, match="begins with a dot"):
        register_reader("json", read_json_triples)
