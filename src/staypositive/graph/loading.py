"""`load_graph`: a name, a folder, a file, a table or an endpoint becomes a checked, integer `KnowledgeGraph`.

`add_facts` adds to one what such a source states.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import DataError, InputError, UnknownLabelError
from staypositive.graph import readers
from staypositive.graph.catalogue import CATALOGUE
from staypositive.graph.encoded import read_encoded
from staypositive.graph.folders import read_folder
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Split, Vocabulary, assemble
from staypositive.graph.labelled import LabelledTriples, require_facts
from staypositive.graph.on_disk.graph import MANIFEST, StreamedGraph, open_streamed
from staypositive.graph.quality import inspect_graph
from staypositive.graph.readers import ColumnNames, RdfTerms, Sparql, TableOptions
from staypositive.graph.splitting import DEFAULT_SPLIT, split_triples

log = logging.getLogger(__name__)

Facts = str | os.PathLike[str] | LabelledTriples | Iterable[Any]
"""A file of triples, what `read_triples` read from one, or triples by label: a list of them, or a table."""


def load_graph(
    source: Any,
    *,
    split: Sequence[float] | None = None,
    header: bool | None = None,
    columns: ColumnNames | None = None,
    skip_blank: bool = False,
    na: str | Iterable[str] = (),
    seed: int = 0,
    terms: RdfTerms | None = None,
    name: str | None = None,
) -> KnowledgeGraph:
    """Load a graph by dataset name (`"geo"`, `"WN18AM"`), from a folder of splits, a file, a table or an endpoint.

    A folder may also be one that `ingest` made, whose facts stay on disk. A file is triples as text, Parquet or RDF,
    of a kind that `register_reader` added, or a graph that `graph.encoded.write_encoded` wrote as `.npz`. A table is
    a list of triples of labels, a frame of pandas or polars, an Arrow table, or a NumPy array of shape (n, 3); a
    mapping of train, valid and test to tables gives the splits. An endpoint is a `Sparql`.

    `split` (train, valid and test shares, 0.8, 0.1, 0.1 by default) and `seed` apply to what has no splits itself,
    which is split so that train keeps every entity and relation of the facts. `header` says whether text files begin
    with a line of column names; by default that is looked at. `terms` says how RDF terms become labels. `name` is
    what the graph is called. Problems of the data are logged as warnings.

    `columns` says which column of text, Parquet or a table is what, by name or by number from 1:
    `{"subject": "Name", "predicate": "Eigenschaft", "object": 3}`; a role that it leaves out is found by its usual
    names, and `"label": None` says that there is none. Rows with a cell of `na` as head, relation or tail are left
    out and counted, and with `skip_blank` those with an empty or missing one.
    """
    options = TableOptions.of(header, columns, skip_blank, na)
    load = _with_splits(source, options, terms, name)
    if load is not None and split is not None:
        raise InputError("a split is for a single file; a folder or a named dataset has its own splits")
    try:
        if load is None:
            own, whole = _without_splits(source, options, terms)
            load = partial(split_triples, name or own, whole, DEFAULT_SPLIT if split is None else split, seed)
        graph = load()
    except DataError as error:
        if error.path is None and isinstance(source, str | os.PathLike):
            raise DataError(str(error), source) from None
        raise
    for line in [] if isinstance(graph, StreamedGraph) else inspect_graph(graph).lines():  # ingesting has seen to it
        log.warning("%s: %s", graph.name, line)
    return graph


def _with_splits(
    source: Any, options: TableOptions, terms: RdfTerms | None, name: str | None
) -> Callable[[], KnowledgeGraph] | None:
    """Return what loads a source that says itself what train, valid and test are; None for any other."""
    if isinstance(source, Mapping) and not readers.is_table(source):
        return partial(_from_tables, source, name or "tables", options)
    if not isinstance(source, str | os.PathLike) or readers.is_endpoint(source):
        return None
    load: Callable[[], KnowledgeGraph] | None = None
    if isinstance(source, str) and source.casefold() in CATALOGUE:
        load = CATALOGUE[source.casefold()].load
    elif str(source) and _is_file(Path(source) / MANIFEST):
        load = partial(open_streamed, source)
    elif os.path.isdir(source):  # noqa: PTH112  # no error where it cannot be a path at all
        return partial(read_folder, source, name=name, terms=terms, options=options)
    elif Path(source).suffix == ".npz" and _is_file(source):
        load = partial(read_encoded, Path(source))
    if load is not None:
        options.refuse(str(source))
    return load


def _without_splits(source: Any, options: TableOptions, terms: RdfTerms | None) -> tuple[str, LabelledTriples]:
    """Return the triples of a source that has no splits, and what to call them."""
    if isinstance(source, Sparql):
        options.refuse(source.endpoint)
        return "sparql", readers.told(readers.read_sparql(source, terms))
    if readers.is_endpoint(source):
        raise InputError(f"{source} is an endpoint and needs a query: load_graph(Sparql(address, query)), or --query")
    if readers.is_table(source):
        return "table", readers.read_table(source, options=options)
    is_path = isinstance(source, str | os.PathLike)
    if is_path and _is_file(source):
        return Path(source).name.strip(".").split(".")[0], readers.read_file(Path(source), options, terms)
    known = ", ".join(dataset.name for dataset in CATALOGUE.values())
    what = source if is_path else f"a {type(source).__name__}"
    raise InputError(f"{what} is neither a file, nor a folder, nor a named dataset ({known})")


def _is_file(path: str | os.PathLike[str]) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  # no error where it cannot be a path at all


def _from_tables(tables: Mapping[str, Any], name: str, options: TableOptions) -> KnowledgeGraph:
    if "train" not in tables or not set(tables) <= set(SPLITS):
        given = ", ".join(map(str, tables))
        raise InputError(f"tables are given for train, valid and test, train at least; got {given}")
    named = {split: f"{split}, a table in memory" for split in tables}
    parts = {split: readers.read_table(tables[split], said, options) for split, said in named.items()}
    require_facts(parts["train"])
    notes = [f"{split}: {note}" for split, part in parts.items() for note in part.remarks]
    return assemble(name, parts, [part.source for part in parts.values()], notes)


def add_facts(graph: KnowledgeGraph, facts: Facts, header: bool | None = None) -> KnowledgeGraph:
    """Return the graph with more training facts; what some split states already is passed over.

    Relations must be known: an unknown one is an error, which names the line of a file.
    """
    if isinstance(facts, str | os.PathLike):
        facts = readers.read_triples(facts, header)
    elif not isinstance(facts, LabelledTriples):
        facts = readers.read_table(facts if readers.is_table(facts) else list(facts), "facts given by label")
    require_facts(facts)
    heads, relations, tails = facts.columns
    try:
        relation_ids = graph.relations.ids(relations)
    except UnknownLabelError as error:
        said = f"{error} New entities need known relations; training adds new ones"
        raise facts.error(said, relations.index(error.label)) from None
    entities = Vocabulary("entity", dict.fromkeys([*graph.entities, *heads, *tails]))
    triples = np.column_stack([entities.ids(heads), relation_ids, entities.ids(tails)])
    grown = dataclasses.replace(graph, entities=entities, sources=(*graph.sources, facts.source))
    keys = grown.keys(triples)
    _, first = np.unique(keys, return_index=True)
    kept = np.sort(first[~np.isin(keys[first], grown.keys(graph.facts()))])
    known, weights = graph.train.facts, None
    old, new = graph.train.fact_weights, facts.weights
    if old is not None or new is not None:  # where one side has none, its facts weigh 1
        old = np.ones(len(known), np.float32) if old is None else old
        weights = np.concatenate([old, np.ones(len(kept), np.float32) if new is None else new[kept]])
    train = Split(np.concatenate([known, triples[kept]]), weights=weights)
    added = len(entities) - len(graph.entities)
    note = f"{len(kept):,} facts and {added:,} entities were added from {facts.source.name}"
    return dataclasses.replace(grown, train=train, notes=(*graph.notes, note))
