"""A PyKEEN model's weights on disk without pickle: its state dict as safetensors, and the folder that PyKEEN saves.

PyKEEN saves models by `torch.save`, as a pickle, which can run any code when it is read; it is never read here.
`save_weights` writes the same numbers beside it in a format that holds only numbers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import torch
from pykeen.models import ERModel
from pykeen.nn.representation import Embedding
from pykeen.triples import TriplesFactory
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.files import write_atomic
from staypositive.interop.pykeen.rows import Layout, RowView, flat_real, layout_named, layout_of

WEIGHTS = "trained_model.safetensors"
KINDS = ("entity_representations", "relation_representations")


class StoredRows(NamedTuple):
    """All rows of a PyKEEN model, relations by PyKEEN's ids, and which model of ours scores them."""

    layout: Layout
    entities: Tensor
    relations: Tensor


def live_rows(model: ERModel) -> StoredRows:
    """Return the rows that a live model scores with."""
    view = RowView(model)
    with torch.no_grad():
        rows = (own.detach().cpu().clone() for own in (view.entity_rows(), view.relation_rows()))
    return StoredRows(view.layout, *rows)


def save_weights(model: ERModel, path: str | os.PathLike[str]) -> Path:
    """Write a model's state dict as safetensors, to a file or into a folder that PyKEEN saved; return the file.

    The file's header says what kind of model it is, so that `from_pykeen` needs nothing else.
    """
    from safetensors.torch import save

    layout, path = layout_of(model), Path(path)
    for kind in KINDS:
        if any(type(own) is not Embedding or own.normalizer is not None for own in getattr(model, kind)):
            raise SettingError(
                f"a state dict does not tell how {kind} are formed that are no plain embeddings, or are "
                "normalised; read the live model with from_pykeen, and save the run"
            )
    tensors = {name: own.detach().cpu().contiguous() for name, own in model.state_dict().items() if _is_row(name)}
    file = path / WEIGHTS if path.is_dir() else path
    return write_atomic(file, save(tensors, {"model": layout.model, "relation_factor": repr(layout.relation_factor)}))


def _is_row(name: str) -> bool:
    return name.startswith(KINDS) and name.endswith("_embeddings.weight")


def read_weights(path: Path, model: str | None = None) -> StoredRows:
    """Read a state dict in safetensors, or that of a folder; `model` names its kind where the header does not."""
    from safetensors import SafetensorError, safe_open

    file = path / WEIGHTS if path.is_dir() else path
    if file.suffix in (".pkl", ".pickle", ".pt", ".pth") or (path.is_dir() and not file.exists()):
        raise RunError(
            f"{path} holds its model as a pickle, which can run any code when it is read and so is never read here. "
            "In the program that trained it, call staypositive.interop.pykeen.save_weights(result.model, folder), or "
            "give from_pykeen the live result"
        )
    try:
        with safe_open(file, "pt") as stored:
            header = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in sorted(stored.keys()) if _is_row(name)}
    except (OSError, SafetensorError) as error:
        raise RunError(f"{file} cannot be read as safetensors: {error}") from None
    if model is not None:
        layout = layout_named(model)
    elif "model" in header:
        layout = Layout(header["model"], float(header.get("relation_factor", "1")))
    else:
        raise SettingError(f"{file} does not say what model it holds; name it, e.g. model='complex'")
    tables = []
    for kind in KINDS:
        parts = [own for name, own in tensors.items() if name.startswith(kind)]
        if not parts:
            raise RunError(f"{file} has no {kind}: it is not the state dict of a PyKEEN model of embeddings")
        if layout.model == "complex":  # stored as pairs (real, imaginary)
            parts = [flat_real(torch.view_as_complex(part.unflatten(1, (-1, 2)).contiguous())) for part in parts]
        tables.append(torch.cat(parts, dim=1))
    return StoredRows(layout, tables[0], layout.relation_factor * tables[1])


def read_triples(folder: Path) -> TriplesFactory:
    """Read the training triples and labels that PyKEEN saved, without `base.pth`, a pickle that is not needed."""
    import pandas as pd

    try:
        triples = pd.read_csv(folder / TriplesFactory.triples_file_name, sep="\t", dtype=int).to_numpy()
        labels = []
        for name in (TriplesFactory.file_name_entity_to_id, TriplesFactory.file_name_relation_to_id):
            table = pd.read_csv(folder / f"{name}.tsv.gz", sep="\t", dtype=str, keep_default_na=False)
            labels.append(dict(zip(table["label"], table["id"].astype(int).tolist(), strict=True)))
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{folder} does not hold the training triples that PyKEEN saves: {error}") from None
    return TriplesFactory(torch.as_tensor(triples), *labels)
