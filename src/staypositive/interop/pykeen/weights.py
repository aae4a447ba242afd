"""A PyKEEN model's weights on disk without pickle: its state dict as safetensors, and the folder that PyKEEN saves.

PyKEEN saves models by `torch.save`, as a pickle, which can run any code when it is read; it is never read here.
`save_weights` puts the same numbers beside it in a format that holds numbers alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from pykeen.models import ERModel
from pykeen.nn.representation import Embedding
from pykeen.triples import TriplesFactory
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.files import write_atomic
from staypositive.interop.pykeen.rows import Layout, RowView, flat_real, layout_named, layout_of

WEIGHTS = "trained_model.safetensors"
TRIPLES = "training_triples"
KINDS = ("entity_representations", "relation_representations")


@dataclass(frozen=True)
class StoredRows:
    """All rows of a PyKEEN model, relations by PyKEEN's ids, and which model of ours scores them."""

    layout: Layout
    entities: Tensor
    relations: Tensor
    prior_score: float = 0.0


def live_rows(model: ERModel, prior_score: float = 0.0) -> StoredRows:
    """Return the rows that a live model scores with."""
    view = RowView(model)
    with torch.no_grad():
        rows = view.entity_rows().detach().cpu().clone(), view.relation_rows().detach().cpu().clone()
    return StoredRows(view.layout, *rows, prior_score)


def save_weights(model: ERModel, path: str | os.PathLike[str]) -> Path:
    """Write a model's state dict as safetensors, to a file or into a folder that PyKEEN saved; return the file.

    What kind of model it is stands in the file's header, so that `from_pykeen` needs nothing else.
    """
    from safetensors.torch import save

    layout, path = layout_of(model), Path(path)
    for kind in KINDS:
        for own in getattr(model, kind):
            if type(own) is not Embedding or own.normalizer is not None:
                raise SettingError(
                    f"a state dict does not tell how {kind} are formed that are no plain embeddings, or are "
                    "normalised; read the live model with from_pykeen, and save the run"
                )
    tensors = {
        name: weight.detach().cpu().contiguous()
        for name, weight in model.state_dict().items()
        if name.startswith(KINDS) and name.endswith("_embeddings.weight")
    }
    header = {"model": layout.model, "relation_factor": repr(layout.relation_factor)}
    file = path / WEIGHTS if path.is_dir() else path
    write_atomic(file, save(tensors, header))
    return file


def read_weights(path: Path, model: str | None = None) -> StoredRows:
    """Read a state dict in safetensors; `model` names its kind where the file's header does not."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read as safetensors: {error}") from None
    if model is not None:
        layout = layout_named(model)
    elif "model" in header:
        layout = Layout(header["model"], float(header.get("relation_factor", "1")))
    else:
        raise SettingError(f"{path} does not say what model it holds; name it, e.g. model='complex'")
    entities, relations = (_stacked(path, tensors, kind, layout) for kind in KINDS)
    return StoredRows(layout, entities, layout.relation_factor * relations)


def _stacked(path: Path, tensors: dict[str, Tensor], kind: str, layout: Layout) -> Tensor:
    """Return one kind's embeddings side by side; complex ones are stored as pairs (real, imaginary)."""
    names = sorted(name for name in tensors if name.startswith(f"{kind}.") and name.endswith("_embeddings.weight"))
    if not names:
        raise RunError(f"{path} has no {kind}: it is not the state dict of a PyKEEN model of embeddings")
    parts = [tensors[name] for name in names]
    if layout.model == "complex":
        parts = [flat_real(torch.view_as_complex(part.unflatten(1, (-1, 2)).contiguous())) for part in parts]
    return torch.cat(parts, dim=1)


def read_triples(folder: Path) -> TriplesFactory:
    """Read the training triples and labels that PyKEEN saved; all but `base.pth`, a pickle, which is not needed."""
    import pandas as pd

    try:
        triples = pd.read_csv(folder / TriplesFactory.triples_file_name, sep="\t", dtype=int).to_numpy()
        entities, relations = (
            dict(zip(table["label"], table["id"].astype(int).tolist(), strict=True))
            for name in (TriplesFactory.file_name_entity_to_id, TriplesFactory.file_name_relation_to_id)
            for table in [pd.read_csv(folder / f"{name}.tsv.gz", sep="\t", dtype=str, keep_default_na=False)]
        )
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{folder} does not hold the training triples that PyKEEN saves: {error}") from None
    return TriplesFactory(torch.as_tensor(triples), entities, relations)


def weights_of(path: Path) -> Path:
    """Return the file of weights of a folder that PyKEEN saved; a pickle is refused by name."""
    file = path / WEIGHTS if path.is_dir() else path
    if file.suffix in (".pkl", ".pickle", ".pt", ".pth") or (not file.exists() and path.is_dir()):
        raise RunError(
            f"{path} holds its model as a pickle, which can run any code when it is read and so is never read here. "
            "In the program that trained it, call staypositive.interop.pykeen.save_weights(result.model, folder), or "
            "give from_pykeen the live result"
        )
    return file
