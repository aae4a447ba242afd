"""`load_graph`: a name, a folder or a file."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest

from staypositive.errors import DataError, InputError, SettingError
from staypositive.graph import CATALOGUE, find_dataset, load_graph, read_folder, read_triples, split_triples
from staypositive.graph.catalogue import MIRROR_VARIABLE

DENSE = "".join(f"e{h}\tr{r}\te{t}\n" for h in range(10) for r in range(2) for t in range(10))


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\nb\tr\ta\n", "utf-8")
    (folder / "valid.txt").write_text("a\tr\ta\n", "utf-8")
    (folder / "test.txt").write_text("b\tr\tb\n", "utf-8")
    return folder


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "whole.v2.tsv"
    path.write_text(DENSE, "utf-8")
    return path


@pytest.fixture(autouse=True)
def _heard(caplog) -> None:
    """Hear warnings even if an earlier test ran a command that silenced them."""
    caplog.set_level(logging.WARNING, logger="staypositive")


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("name", ["geo", "GEO", "Geo"])
def test_a_name(name, caplog):
    graph = load_graph(name)
    assert graph.name == "geo"
    assert graph.counts() == find_dataset("geo").counts
    assert warnings(caplog) == []


def test_a_name_of_the_mirror_says_what_is_odd(load_named, caplog):
    graph = load_graph("wn18rr")
    assert graph.fingerprint == load_named("WN18RR").fingerprint
    assert warnings(caplog) == [
        "WN18RR: 210 triples of valid have one of 198 entities that train never has",
        "WN18RR: 210 triples of test have one of 209 entities that train never has",
    ]


def test_a_name_comes_before_a_folder_of_that_name(folder, monkeypatch):
    folder.rename(folder.parent / "geo")
    monkeypatch.chdir(folder.parent)
    assert load_graph("geo").counts() == find_dataset("geo").counts
    assert load_graph("./geo").counts() == load_graph(Path("geo")).counts()
    assert load_graph("./geo").counts() == {"entities": 2, "relations": 1, "train": 2, "valid": 1, "test": 1}


def test_a_folder(folder, caplog):
    graph = load_graph(folder)
    assert graph.fingerprint == load_graph(str(folder)).fingerprint == read_folder(folder).fingerprint
    assert graph.name == "mine"
    assert warnings(caplog) == []


def test_a_folder_takes_header(folder):
    assert len(load_graph(folder / ".." / "mine", header=False).train) == 2
    for name in ("train", "valid", "test"):
        (folder / f"{name}.txt").write_text("x\ty\tz\na\tr\tb\n", "utf-8")
    assert load_graph(folder, header=True).counts() == {
        "entities": 2,
        "relations": 1,
        "train": 1,
        "valid": 1,
        "test": 1,
    }


def test_a_file_is_split_by_default(file, caplog):
    graph = load_graph(file)
    assert graph.name == "whole"
    assert graph.counts() == {"entities": 10, "relations": 2, "train": 160, "valid": 20, "test": 20}
    assert graph.sources == (read_triples(file).source,)
    assert warnings(caplog) == []


def test_a_file_is_split_as_asked(file):
    whole = read_triples(file)
    graph = load_graph(str(file), split=(0.6, 0.3, 0.1), seed=7)
    assert [len(graph.split(name)) for name in ("train", "valid", "test")] == [120, 60, 20]
    assert graph.fingerprint == split_triples("x", whole, (0.6, 0.3, 0.1), 7).fingerprint
    assert graph.fingerprint != load_graph(file, split=(0.6, 0.3, 0.1), seed=8).fingerprint
    assert load_graph(file).fingerprint == load_graph(file, split=[0.8, 0.1, 0.1], seed=0).fingerprint
    assert load_graph(file).fingerprint == load_graph(file, split=np.array([0.8, 0.1, 0.1])).fingerprint


def test_a_gzipped_csv_file_with_a_header(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(("subject,predicate,object\n" + DENSE.replace("\t", ",")).encode()))
    assert load_graph(path).counts() == {"entities": 10, "relations": 2, "train": 160, "valid": 20, "test": 20}
    assert load_graph(path, header=False).counts()["entities"] == 12


def test_a_file_with_signs(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text(DENSE.replace("\n", "\t1\n") + "".join(f"e0\tr0\tn{i}\t-1\n" for i in range(50)), "utf-8")
    graph = load_graph(path)
    assert len(graph.train) == 160
    assert len(graph.valid.falsehoods) + len(graph.test.falsehoods) == 50
    with pytest.raises(SettingError, match="labels some triples -1"):
        load_graph(path, split=(1, 0, 0))


def test_what_is_odd_is_logged(folder, caplog):
    (folder / "train.txt").write_text("a\tr\tb\na\tr\tb\n", "utf-8")
    (folder / "valid.txt").write_text("a\tr\tb\t-1\n", "utf-8")
    (folder / "test.txt").write_text("a\tr\tb\na\tr\tc\n", "utf-8")
    load_graph(folder)
    assert warnings(caplog) == [
        "mine: 1 duplicate triples in train (kept)",
        "mine: 1 triples of test are facts of train too",
        "mine: 1 triples labelled -1 in valid are stated as facts as well",
        "mine: 1 triples of test have one of 1 entities that train never has",
    ]


def test_nothing_of_that_name(tmp_path):
    with pytest.raises(InputError) as caught:
        load_graph(tmp_path / "nowhere")
    known = ", ".join(dataset.name for dataset in CATALOGUE.values())
    assert str(caught.value) == (
        f"{tmp_path / 'nowhere'} is neither a file, nor a folder, nor a named dataset ({known})"
    )
    with pytest.raises(InputError, match="WN18 is neither a file, nor a folder, nor a named dataset"):
        load_graph("WN18")


@pytest.mark.parametrize("name", ["geo", "WN18rr"])
def test_a_split_of_a_name_is_an_error(name, monkeypatch, tmp_path):
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path))  # refused before anything is fetched
    with pytest.raises(InputError, match="a split is for a single file"):
        load_graph(name, split=(0.8, 0.1, 0.1))


def test_a_split_of_a_folder_is_an_error(folder):
    with pytest.raises(InputError, match="a split is for a single file"):
        load_graph(folder, split=(0.8, 0.1, 0.1))


@pytest.mark.parametrize("split", [(0.8, 0.1), (0.5, 0.1, 0.1)])
def test_a_bad_split_of_a_file(file, split):
    with pytest.raises(SettingError):
        load_graph(file, split=split)


def test_an_empty_split_of_a_file(file):
    with pytest.raises(SettingError):
        load_graph(file, split=())


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("\na\tr\n", "utf-8")
    with pytest.raises(DataError) as caught:
        load_graph(path)
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("source", ["", "x" * 5000, "a\0b"])
def test_what_cannot_be_a_path(source):
    with pytest.raises(InputError, match="neither a file"):
        load_graph(source)


def test_bad_seed_of_a_split(file):
    with pytest.raises(SettingError, match="seed"):
        load_graph(file, seed=-1)
