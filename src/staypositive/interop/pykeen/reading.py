"""`from_pykeen`: a model that PyKEEN trained becomes a run of ours, with equal scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pykeen.datasets import Dataset, dataset_resolver, get_dataset
from pykeen.models import ERModel
from pykeen.pipeline import PipelineResult
from pykeen.training import LCWATrainingLoop, SymmetricLCWATrainingLoop, TrainingLoop
from pykeen.triples import CoreTriplesFactory, TriplesFactory
from pykeen.version import get_version

from staypositive.errors import InputError
from staypositive.graph import KnowledgeGraph, Split, Vocabulary
from staypositive.interop.pykeen.rows import StoredRows, live_rows, read_triples, read_weights
from staypositive.interop.pykeen.training import ClosedFormTrainingLoop
from staypositive.interop.pykeen_datasets import CatalogueDataset
from staypositive.models import BilinearModel
from staypositive.objectives import NegativeSampling, Objective, OneVsAll
from staypositive.run import Run, Settings
from staypositive.run.provenance import provenance
from staypositive.version import __version__


def from_pykeen(
    source: PipelineResult | ERModel | str | os.PathLike[str],
    dataset: Dataset | CoreTriplesFactory | str | None = None,
    *,
    model: str | None = None,
) -> Run:
    """Return a run with the scores of a model that PyKEEN trained.

    `source` is a pipeline's result, a live model, a folder that PyKEEN saved and `save_weights` added to, or a state
    dict in safetensors, whose kind `model` names if its header does not. `dataset` gives labels and splits: PyKEEN's
    own, its name, or a triples factory. A result and a folder have only their training triples with them.
    """
    loop, training = None, None
    if isinstance(source, PipelineResult):
        loop, training, rows = source.training_loop, source.training, live_rows(source.model)
    elif isinstance(source, ERModel):
        rows = live_rows(source)
    elif isinstance(source, str | os.PathLike):
        rows, triples = read_weights(Path(source), model), Path(source) / "training_triples"
        training = read_triples(triples) if triples.is_dir() else None
    else:
        raise InputError(f"expected a PyKEEN result, model or path, got a {type(source).__name__}")
    graph = graph_of(dataset if dataset is not None else training)
    if isinstance(training, TriplesFactory):  # rows are found by id
        for own, theirs in zip((graph.entities, graph.relations), _labels(training), strict=True):
            if list(own) != theirs:
                raise InputError(
                    f"the dataset numbers its {own.kind} labels otherwise than the triples that the model was "
                    "trained on"
                )
    return _run(graph, rows, loop)


def graph_of(dataset: Dataset | CoreTriplesFactory | str | None) -> KnowledgeGraph:
    """Return a PyKEEN dataset, by itself or by name, or one triples factory, as a graph with PyKEEN's ids."""
    if dataset is None:
        raise InputError(
            "a model has rows but no labels: give the dataset or the triples factory that it was trained on"
        )
    source: Any = dataset
    if isinstance(dataset, str):
        kind = dataset_resolver.lookup_dict.get(dataset_resolver.normalize(dataset))
        is_ours = kind is not None and issubclass(kind, CatalogueDataset)  # PyKEEN's copy on disk has only facts
        source = kind() if is_ours else get_dataset(dataset=dataset)
    if isinstance(source, CatalogueDataset):
        return source.graph
    if isinstance(source, CoreTriplesFactory):
        factories, name = (source, None, None), "pykeen"
    else:
        factories, name = (source.training, source.validation, source.testing), source.get_normalized_name()
    entities, relations = _labels(factories[0])
    none = np.zeros((0, 3), np.int64)
    train, valid, test = (Split(none if own is None else own.mapped_triples.numpy()) for own in factories)
    return KnowledgeGraph(name, Vocabulary("entity", entities), Vocabulary("relation", relations), train, valid, test)


def _labels(factory: CoreTriplesFactory) -> list[list[str]]:
    """Return the labels of entities and relations in the order of their ids; the ids where there are none."""
    counts = {"entity": factory.num_entities, "relation": factory.real_num_relations}
    known = {kind: getattr(factory, f"{kind}_id_to_label", {}) for kind in counts}
    return [[known[kind].get(number, str(number)) for number in range(count)] for kind, count in counts.items()]


def _run(graph: KnowledgeGraph, rows: StoredRows, loop: TrainingLoop | None) -> Run:
    ours = loop if isinstance(loop, ClosedFormTrainingLoop) else None
    model = _model(graph, rows, ours.view.algebra.prior_score if ours else 0.0)
    objective = ours.objective if ours else _nearest_objective(loop, model.reciprocal)
    settings = Settings(
        model=rows.layout.model, objective=objective, dim=model.dim, bound="identity", prior_score=model.prior_score
    )
    origin = provenance(graph, torch.device("cpu"), __version__) | {"engine": f"PyKEEN {get_version()}"}
    if loop is not None:
        by_loss = "" if ours else f" with {type(loop.loss).__name__}"
        origin |= {"trained_by": type(loop).__name__ + by_loss, "losses": loop.losses_per_epochs}
    return Run(graph, model, settings, (), 0, origin)


def _model(graph: KnowledgeGraph, rows: StoredRows, prior_score: float) -> BilinearModel:
    """Return the model with these rows. PyKEEN's inverse of relation 2r is 2r + 1; ours of r is r + |R|."""
    layout, entities, relations = rows
    n, m = len(graph.entities), len(graph.relations)
    if len(entities) != n or len(relations) not in (m, 2 * m):
        raise InputError(
            f"the model has {len(entities)} entities and {len(relations)} relations (inverse ones counted), "
            f"but {graph.name} has {n} and {m}; give the dataset that it was trained on"
        )
    reciprocal = len(relations) == 2 * m
    if reciprocal:
        relations = torch.cat([relations[0::2], relations[1::2]])
    model = layout.build(entities.shape[1], n, m, reciprocal=reciprocal, prior_score=prior_score).to(entities.dtype)
    model.load_state_dict({"entities": entities, "relations": relations})
    return model.eval()


def _nearest_objective(loop: TrainingLoop | None, reciprocal: bool) -> Objective:
    """Return the objective that is nearest to PyKEEN's; provenance says exactly what it was."""
    if isinstance(loop, LCWATrainingLoop | SymmetricLCWATrainingLoop):
        return OneVsAll(reciprocal=reciprocal)
    drawn = (getattr(loop, "negative_sampler_kwargs", None) or {}).get("num_negs_per_pos") or 1
    return NegativeSampling(negatives=drawn)
