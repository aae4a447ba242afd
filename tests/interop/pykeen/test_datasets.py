"""Our datasets under PyKEEN's names."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pykeen")

import numpy as np
from pykeen.datasets import dataset_resolver, get_dataset

import staypositive as sp
from staypositive.interop import pykeen_datasets
from staypositive.interop.pykeen_datasets import Geo


def test_pykeen_finds_each_by_name() -> None:
    for kind in pykeen_datasets.DATASETS:
        assert dataset_resolver.lookup(kind.__name__) is kind
        assert getattr(pykeen_datasets, kind.__name__) is kind
    assert {"wn11", "fb13", "wn18am", "fb15k237am"} <= set(dataset_resolver.lookup_dict)


def test_entry_points_name_them() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="pykeen.datasets")}
    if not found:
        pytest.skip("staypositive is on the path, but not installed")
    assert set(pykeen_datasets.DATASETS) <= set(found.values())


def test_pykeen_lists_them_by_their_counts() -> None:
    """Of Geo against its splits; of the others against the catalogue, whose counts have both labels."""
    stated, dataset = Geo.docdata("statistics"), Geo()
    counted = (dataset.training.num_triples, dataset.validation.num_triples, dataset.testing.num_triples)
    assert (stated["training"], stated["validation"], stated["testing"]) == counted
    assert (stated["triples"], stated["entities"]) == (sum(counted), dataset.num_entities)
    for kind in pykeen_datasets.DATASETS:
        counts, stated = sp.CATALOGUE[kind.catalogue_name.casefold()].counts, kind.docdata("statistics")
        assert stated["training"] == counts["train"]
        assert stated["validation"] in (counts["valid"], counts["valid"] / 2)


def test_nothing_is_read_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: Any) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(type(sp.CATALOGUE["geo"]), "load", read)
    dataset = Geo()
    with pytest.raises(AssertionError, match="read"):
        _ = dataset.training


@pytest.mark.parametrize("inverse", [False, True])
def test_splits_ids_and_labels_are_the_graphs(inverse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykeen.datasets.utils.PYKEEN_DATASETS", tmp_path)  # PyKEEN keeps copies there
    dataset = get_dataset(dataset="geo", dataset_kwargs={"create_inverse_triples": inverse})
    graph = sp.load_graph("geo")
    for factory, split in ((dataset.training, "train"), (dataset.validation, "valid"), (dataset.testing, "test")):
        assert np.array_equal(factory.mapped_triples.numpy(), graph.split(split).facts)
        assert [factory.entity_id_to_label[i] for i in range(factory.num_entities)] == list(graph.entities)
    assert dataset.create_inverse_triples is inverse
    assert dataset.training.real_num_relations == len(graph.relations)
    assert np.array_equal(dataset.falsehoods("valid").numpy(), graph.valid.falsehoods)
    assert len(dataset.falsehoods("test")) == len(graph.test.falsehoods) > 0
