"""Named datasets: what the catalogue states, the mirror, the download, and the real data where it is at hand."""

from __future__ import annotations

import functools
import gc
import hashlib
import http.server
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pooch
import pytest

from staypositive.errors import DownloadError, InputError, StayPositiveError
from staypositive.files import CACHE_VARIABLE, cache_folder
from staypositive.graph import CATALOGUE, Dataset, find_dataset, inspect_graph
from staypositive.graph.catalogue import MIRROR_VARIABLE, RemoteFile

REMOTE = [dataset for dataset in CATALOGUE.values() if dataset.files]
DERIVED = [dataset for dataset in CATALOGUE.values() if dataset.base]

TOY = {
    "train.txt": b"head\trelation\ttail\na\tr\tb\nb\tr\tc\n",
    "valid.txt": b"a\tr\tc\n",
    "valid_negatives.txt": b"c\tr\ta\n",
    "test.txt": b"x\tr\ta\t1\nc\tr\tb\t-1\n",
}


def toy(address: str = "https://nowhere.invalid/data/toy", **hashes: str) -> Dataset:
    files = tuple(
        RemoteFile(name, hashes.get(name.split(".")[0], hashlib.sha256(data).hexdigest()), data.count(b"\n"))
        for name, data in TOY.items()
    )
    return Dataset("Toy", "a toy", {}, address, files)


def store(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, data in TOY.items():
        (folder / name).write_bytes(data)
    return folder


# --- what the catalogue states -----------------------------------------------------------------------------------


def test_names_and_keys():
    assert {dataset.name for dataset in CATALOGUE.values()} >= {"geo", "WN18RR", "FB15k-237", "WN18AM", "FB15k-237AM"}
    assert all(key == dataset.name.casefold() for key, dataset in CATALOGUE.items())
    assert all(dataset.about for dataset in CATALOGUE.values())
    assert all(list(d.counts) == ["entities", "relations", "train", "valid", "test"] for d in CATALOGUE.values())


@pytest.mark.parametrize("dataset", REMOTE, ids=lambda dataset: dataset.name)
def test_files_are_pinned_and_add_up(dataset):
    assert re.fullmatch(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/.+[^/]", dataset.address)
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in dataset.files)
    for split in ("train", "valid", "test"):
        assert sum(file.rows for file in dataset.files if file.split == split) == dataset.counts[split]


@pytest.mark.parametrize("dataset", DERIVED, ids=lambda dataset: dataset.name)
def test_derived_datasets_are_their_base_without_some_of_valid_and_test(dataset):
    base = find_dataset(dataset.base)
    assert dataset.counts["train"] == base.counts["train"]
    assert all(dataset.counts[name] <= count for name, count in base.counts.items())


def test_a_file_knows_its_split():
    assert [file.split for file in toy().files] == ["train", "valid", "valid", "test"]


def test_datasets_are_found_whatever_the_case():
    assert find_dataset("wn18rr") is find_dataset("WN18RR") is CATALOGUE["wn18rr"]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError) as caught:
        find_dataset("WN18")
    assert str(caught.value) == "no dataset is called 'WN18'; known: " + ", ".join(d.name for d in CATALOGUE.values())


# --- the mirror --------------------------------------------------------------------------------------------------


@pytest.fixture
def toy_mirror(tmp_path, monkeypatch):
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return store(tmp_path / "mirror" / "toy")


def test_a_mirror_is_read_and_nothing_is_downloaded(toy_mirror, tmp_path, rows_of):
    graph = toy().load()
    assert graph.name == "Toy"
    assert rows_of(graph, "train")[0] == ("head", "relation", "tail", 1)  # published files have no header
    assert rows_of(graph, "valid") == [("a", "r", "c", 1), ("c", "r", "a", -1)]
    assert rows_of(graph, "test") == [("x", "r", "a", 1), ("c", "r", "b", -1)]
    assert [(source.name, source.sha256, source.rows) for source in graph.sources] == [
        (file.name, file.sha256, file.rows) for file in toy().files
    ]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["encoded"]  # the numbers, not the files


def test_a_derived_dataset_is_its_base_cleaned(toy_mirror, monkeypatch, rows_of):
    monkeypatch.setitem(CATALOGUE, "toy", toy())
    graph = Dataset("ToyAM", "a toy", {}, base="TOY").load()
    assert graph.name == "ToyAM"
    assert rows_of(graph, "test") == [("c", "r", "b", -1)]
    assert "x" not in graph.entities


def test_a_mirror_without_the_file(toy_mirror):
    (toy_mirror / "test.txt").unlink()
    with pytest.raises(DownloadError) as caught:
        toy().load()
    assert str(toy_mirror / "test.txt") in str(caught.value)
    assert MIRROR_VARIABLE in str(caught.value)


def test_a_mirror_with_another_file(toy_mirror):
    other = b"a\tr\tb\n"
    (toy_mirror / "valid.txt").write_bytes(other)
    with pytest.raises(DownloadError) as caught:
        toy().load()
    expected, found = (hashlib.sha256(data).hexdigest() for data in (TOY["valid.txt"], other))
    path = toy_mirror / "valid.txt"
    assert str(caught.value) == f"{path} is not the pinned file: expected SHA-256 {expected}, found {found}"


def test_a_real_name_is_checked_as_strictly(tmp_path, monkeypatch):
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path))
    with pytest.raises(DownloadError, match=r"has no .*WN18RR.train.txt"):
        find_dataset("WN18AM").load()
    store(tmp_path / "WN18RR")
    with pytest.raises(DownloadError, match="is not the pinned file"):
        find_dataset("WN18RR").load()


# --- the download ------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve files, and note which were asked for instead of printing it."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()


class Site:
    """An HTTP server on the loopback interface, in a thread."""

    def __init__(self, folder: Path) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        self.server.asked = self.asked = []  # type: ignore[attr-defined]
        self.address = f"http://127.0.0.1:{self.server.server_port}/toy"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(pooch.get_logger(), "level", logging.ERROR)
    return tmp_path / "cache" / "toy"


@pytest.fixture
def site(tmp_path, cache) -> Iterator[Site]:
    store(tmp_path / "site" / "toy")
    site = Site(tmp_path / "site")
    yield site
    site.stop()
    with warnings.catch_warnings():  # pooch leaves the socket of a refused request to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_a_download_is_kept_and_needs_no_server_the_second_time(site, cache):
    dataset = toy(site.address)
    first = dataset.load()
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == TOY
    assert sorted(site.asked) == sorted(f"/toy/{name}" for name in TOY)
    site.stop()
    assert dataset.load().fingerprint == first.fingerprint
    assert len(site.asked) == len(TOY)


def test_a_download_with_another_hash_is_refused_and_not_kept(site, cache):
    dataset = toy(site.address, train="0" * 64)
    with pytest.raises(DownloadError) as caught:
        dataset.load()
    assert f"could not fetch {site.address}/train.txt" in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert site.asked == ["/toy/train.txt"]
    assert list(cache.iterdir()) == []


def test_a_cached_file_that_was_changed_is_fetched_again(site, cache):
    dataset = toy(site.address)
    dataset.load()
    (cache / "train.txt").write_bytes(b"something\telse\there\n")
    assert len(dataset.load().train) == 3
    assert (cache / "train.txt").read_bytes() == TOY["train.txt"]
    assert site.asked[len(TOY) :] == ["/toy/train.txt"]


def test_a_file_that_the_server_does_not_have(site, cache, tmp_path):
    (tmp_path / "site" / "toy" / "test.txt").unlink()
    with pytest.raises(DownloadError, match=r"could not fetch .*/toy/test.txt.*404") as caught:
        toy(site.address).load()
    assert MIRROR_VARIABLE in str(caught.value)
    assert isinstance(caught.value, StayPositiveError)
    assert not (cache / "test.txt").exists()


def test_a_server_that_does_not_answer(site, cache):
    site.stop()
    with pytest.raises(DownloadError, match=r"could not fetch .*/toy/train.txt"):
        toy(site.address).load()
    assert not (cache / "train.txt").exists()


def test_the_cache_is_where_the_variable_says_or_the_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv(CACHE_VARIABLE, "")
    assert cache_folder() == Path(pooch.os_cache("staypositive"))
    monkeypatch.delenv(CACHE_VARIABLE)
    assert cache_folder() == Path(pooch.os_cache("staypositive"))


# --- the real data, where STAYPOSITIVE_MIRROR has it -------------------------------------------------------------


@pytest.mark.parametrize("dataset", CATALOGUE.values(), ids=lambda dataset: dataset.name)
def test_a_dataset_has_exactly_its_stated_counts(dataset, load_named):
    graph = load_named(dataset.name)
    assert graph.name == dataset.name
    assert graph.counts() == dataset.counts


@pytest.mark.parametrize("dataset", REMOTE, ids=lambda dataset: dataset.name)
def test_each_file_has_its_stated_rows(dataset, load_named, mirror):
    sources = {source.name: source for source in load_named(dataset.name).sources}
    assert list(sources) == [file.name for file in dataset.files]
    for file in dataset.files:
        lines = (mirror / dataset.folder / file.name).read_bytes().splitlines()
        assert len(lines) == sources[file.name].rows == file.rows
        assert sources[file.name].sha256 == file.sha256


@pytest.mark.parametrize("name", ["WN18RR", "FB15k-237"])
def test_facts_alone_have_no_labels(name, load_named):
    graph = load_named(name)
    assert graph.valid.labels is graph.test.labels is None


@pytest.mark.parametrize(
    ("name", "valid", "test"), [("CoDEx-S", 1_827, 1_828), ("WN11", 2_609, 10_544), ("FB13", 5_908, 23_733)]
)
def test_labelled_datasets_have_as_many_negatives_as_facts(name, valid, test, load_named):
    graph = load_named(name)
    assert graph.train.labels is None
    assert len(graph.valid.facts) == len(graph.valid.falsehoods) == valid
    assert len(graph.test.facts) == len(graph.test.falsehoods) == test


@pytest.mark.parametrize(
    ("name", "valid", "test"), [("WN18RR", 210, 210), ("FB15k-237", 9, 28), ("WN11", 338, 1_342), ("FB13", 0, 0)]
)
def test_unseen_triples_of_the_published_splits(name, valid, test, load_named):
    assert inspect_graph(load_named(name)).unseen_triples == {"valid": valid, "test": test}


def test_wn11_repeats_training_triples(load_named):
    graph = load_named("WN11")
    assert len(graph.train) - len(set(map(tuple, graph.train.triples.tolist()))) == 2_220
    assert inspect_graph(graph).duplicates["train"] == 2_220


def test_fb13_labels_training_facts_as_false(load_named):
    graph = load_named("FB13")
    stated = set(map(tuple, graph.train.triples.tolist()))
    report = inspect_graph(graph)
    for split in ("valid", "test"):
        false = list(map(tuple, graph.split(split).falsehoods.tolist()))
        assert 0 < sum(triple in stated for triple in false) <= report.contradictions[split]
    assert report.contradictions == {"valid": 14, "test": 53}


@pytest.mark.parametrize("name", ["geo", "CoDEx-S", "WN18AM", "FB15k-237AM"])
def test_clean_datasets_say_nothing(name, load_named):
    assert inspect_graph(load_named(name)).lines() == []


@pytest.mark.parametrize("dataset", DERIVED, ids=lambda dataset: dataset.name)
def test_a_cleaned_dataset_keeps_its_training_triples(dataset, load_named):
    base, clean = load_named(dataset.base), load_named(dataset.name)
    for column, old, new in ((0, base.entities, clean.entities), (1, base.relations, clean.relations)):
        assert np.array_equal(
            np.array(old.labels)[base.train.triples[:, column]], np.array(new.labels)[clean.train.triples[:, column]]
        )
    assert clean.notes == (
        f"{len(base.valid) + len(base.test) - len(clean.valid) - len(clean.test)} "
        "valid and test triples with unseen entities dropped",
    )
