"""The graph in a run's folder: the graph itself, or for a streamed one where it lies and what its fingerprint is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from staypositive.errors import InputError, RunError
from staypositive.graph import KnowledgeGraph, StreamedGraph, StreamedSplit, open_streamed
from staypositive.run.checking import parsed
from staypositive.run.sealed_folder import tensors_from_bytes, tensors_to_bytes, to_json

STREAMED = "streamed.json"


def graph_contents(graph: KnowledgeGraph, folder: Path) -> dict[str, bytes]:
    """Return what to keep of a graph, by role."""
    if isinstance(graph, StreamedGraph) and isinstance(graph.train, StreamedSplit):
        beside = os.path.relpath(graph.folder, folder.resolve())
        stated = {"folder": str(graph.folder), "beside": beside, "fingerprint": graph.fingerprint}
        return {STREAMED: to_json(stated)}
    arrays = {name: torch.from_numpy(array) for name, array in graph.arrays().items()}
    return {
        "graph.safetensors": tensors_to_bytes(arrays),
        "labels.json": to_json({"entities": graph.entities.labels, "relations": graph.relations.labels}),
    }


def read_graph(contents: Mapping[str, bytes], provenance: dict[str, Any], folder: Path) -> KnowledgeGraph:
    """Return the graph of a run."""
    notes = provenance.pop("graph_notes")
    if STREAMED in contents:
        return _streamed(parsed(contents[STREAMED]), folder)
    labels = parsed(contents["labels.json"])
    return KnowledgeGraph.from_arrays(
        provenance["graph"],
        (labels["entities"], labels["relations"]),
        {name: tensor.numpy() for name, tensor in tensors_from_bytes(contents["graph.safetensors"]).items()},
        provenance["sources"],
        notes,
    )


def _streamed(stated: dict[str, str], folder: Path) -> StreamedGraph:
    places = [Path(stated["folder"]), folder.resolve() / stated["beside"]]
    place = next((place for place in places if place.is_dir()), None)
    if place is None:
        raise RunError(
            f"it was trained on the streamed graph in {stated['folder']}, which is not there. A run refers to "
            "such a graph rather than copying it: put it back, or ingest it again to that folder"
        )
    try:
        graph = open_streamed(place)
    except InputError as error:
        raise RunError(f"it was trained on a streamed graph that cannot be read: {error}") from error
    if graph.fingerprint != stated["fingerprint"]:
        raise RunError(
            f"it was trained on another graph than the one in {place}: expected the fingerprint "
            f"{stated['fingerprint']}, found {graph.fingerprint}"
        )
    return graph
