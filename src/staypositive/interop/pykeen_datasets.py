"""Our named datasets as PyKEEN's, by its `pykeen.datasets` entry point: `pipeline(dataset="wn11")`.

Those that PyKEEN has no class of its own for are here. Nothing is read before a split is asked for. PyKEEN knows
facts only: the triples labelled false are in `falsehoods`, and in `graph`.

This is a module of its own, beside the plug-in, because PyKEEN loads it while it is half imported itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import torch
from docdata import parse_docdata
from pykeen.datasets import dataset_resolver
from pykeen.datasets.base import LazyDataset
from pykeen.triples import TriplesFactory
from torch import Tensor

from staypositive.graph import CATALOGUE, SPLITS, KnowledgeGraph


class CatalogueDataset(LazyDataset):
    """A dataset of the catalogue, with the catalogue's ids: entity 3 is `graph.entities[3]`."""

    catalogue_name: ClassVar[str]

    def __init__(self, *, create_inverse_triples: bool = False) -> None:
        self._inverse = create_inverse_triples

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The whole graph, with the labels ±1 of its triples where it has any."""
        return CATALOGUE[self.catalogue_name.casefold()].load()

    def falsehoods(self, split: str) -> Tensor:
        """Return the triples labelled false of `valid` or `test`, by ids, shape (n, 3)."""
        return torch.as_tensor(self.graph.split(split).falsehoods)

    def _load(self) -> None:
        self._training, self._testing = self._factory("train", self._inverse), self._factory("test", False)

    def _load_validation(self) -> None:
        self._validation = self._factory("valid", False)

    def _factory(self, split: str, inverse: bool) -> TriplesFactory:
        """Return the facts of a split; only training has inverse triples, as in PyKEEN."""
        graph = self.graph
        entities, relations = ({label: i for i, label in enumerate(own)} for own in (graph.entities, graph.relations))
        facts = torch.as_tensor(graph.split(split).facts)
        return TriplesFactory(facts, entities, relations, create_inverse_triples=inverse)


def _named(class_name: str, name: str, *, half_false: bool = False) -> type[CatalogueDataset]:
    """Return the class of a dataset, with the counts of facts that PyKEEN lists datasets by.

    `half_false`: half of its validation and test triples are labelled false.
    """
    own = CATALOGUE[name.casefold()]
    train, valid, test = (own.counts[split] for split in SPLITS)
    if half_false:
        valid, test = valid // 2, test // 2
    lines = [
        f"{own.about}.", "", "---", f"name: {own.name}", "statistics:",
        f"    entities: {own.counts['entities']}", f"    relations: {own.counts['relations']}",
        f"    training: {train}", f"    testing: {test}", f"    validation: {valid}",
        f"    triples: {train + valid + test}",
    ]  # fmt: skip
    members: dict[str, Any] = {"catalogue_name": own.name, "__doc__": "\n".join(lines), "__module__": __name__}
    made: type[CatalogueDataset] = parse_docdata(type(class_name, (CatalogueDataset,), members))
    return made


Geo = _named("Geo", "geo", half_false=True)
WN11 = _named("WN11", "WN11", half_false=True)
FB13 = _named("FB13", "FB13", half_false=True)
CoDExS = _named("CoDExS", "CoDEx-S", half_false=True)
WN18AM = _named("WN18AM", "WN18AM")
FB15k237AM = _named("FB15k237AM", "FB15k-237AM")

DATASETS = (Geo, WN11, FB13, CoDExS, WN18AM, FB15k237AM)
"""What the entry points name."""

for _kind in DATASETS:  # where this module comes first, PyKEEN looks for its classes before they are there
    dataset_resolver.register(_kind, raise_on_conflict=False)
