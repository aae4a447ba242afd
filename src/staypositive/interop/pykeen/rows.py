"""A PyKEEN model's representations as rows of one of our models, so that every closed form here holds for it.

PyKEEN holds a model as representations, tensors by entity or relation, and an interaction that scores them. For six
interactions the representations, flattened and put side by side, are rows of a model of ours with equal scores.

PyKEEN saves models by `torch.save`, as a pickle, which can run any code when it is read; it is never read here.
`save_weights` writes the same numbers beside it as safetensors, a format that holds only numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pykeen.models import ERModel
from pykeen.nn import modules
from pykeen.nn.representation import Embedding, Representation
from pykeen.triples import TriplesFactory
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.files import write_atomic
from staypositive.models import TABLES, BilinearModel, build_model

WEIGHTS = "trained_model.safetensors"
KINDS = ("entity_representations", "relation_representations")
INTERACTIONS: dict[str, type[modules.Interaction]] = {
    "distmult": modules.DistMultInteraction,
    "simple": modules.SimplEInteraction,
    "complex": modules.ComplExInteraction,
    "hole": modules.HolEInteraction,
    "rescal": modules.RESCALInteraction,
    "cp": modules.CPInteraction,
}
"""PyKEEN's interactions that are linear in head, relation and tail, by the name of the model here."""


class Layout(NamedTuple):
    """Which model of ours scores the rows, and what its relation rows are multiplied by."""

    model: str
    relation_factor: float = 1.0

    def build(self, entity_width: int, n_entities: int, n_relations: int, **settings: Any) -> BilinearModel:
        """Return the model that fits entity rows of this width."""
        blocks = TABLES[self.model].entity_blocks if self.model in TABLES else 1
        return build_model(self.model, n_entities, n_relations, entity_width // blocks, bound="identity", **settings)


def layout_named(name: str) -> Layout:
    """Return the layout of a PyKEEN model by its name."""
    if name not in INTERACTIONS:
        raise SettingError(f"expected one of PyKEEN's models {', '.join(INTERACTIONS)}, got {name!r}")
    if name == "simple":
        # In PyKEEN 1.11 each half of a head meets its like, rather than a tail's other half, which makes SimplE two
        # DistMults side by side, each of weight 1/2; so look.
        one, none = torch.ones(1), torch.zeros(1)
        if INTERACTIONS[name]()((one, none), (one, one), (none, one)) == 0:
            return Layout("distmult", relation_factor=0.5)
    return Layout(name)


def layout_of(model: ERModel) -> Layout:
    """Return the layout of a PyKEEN model by its interaction; one that is not linear in its rows is an error."""
    interaction: Any = getattr(model, "interaction", None)
    if type(interaction) is modules.ClampedInteraction:
        if interaction.clamp_score is not None:
            raise SettingError(
                f"scores clamped to {interaction.clamp_score} are not linear in the rows, so that no closed form "
                "holds; build the model with clamp_score=None, or set model.interaction.clamp_score = None"
            )
        interaction = interaction.base
    for name, kind in INTERACTIONS.items():
        if type(interaction) is kind:
            return layout_named(name)
    raise SettingError(
        f"expected a PyKEEN model that is linear in head, relation and tail ({', '.join(INTERACTIONS)}), "
        f"got {type(model).__name__} with {type(interaction).__name__}"
    )


class RowView:
    """The rows of a live PyKEEN model, with gradients, and the model of ours that scores them (`algebra`)."""

    def __init__(self, model: ERModel, *, prior_score: float = 0.0, dropout: float = 0.0) -> None:
        self.model, self.layout = model, layout_of(model)
        with torch.no_grad():
            width = self.entity_rows(torch.zeros(1, dtype=torch.long, device=model.device)).shape[1]
        sizes = width, model.num_entities, model.num_relations
        with torch.device("meta"):  # formulas without weights
            self.algebra = self.layout.build(*sizes, prior_score=prior_score, dropout=dropout)

    def entity_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        """Return the rows of these entities, or of all; unless `plain`, the model's own regularisers see them."""
        return _row(self.model.entity_representations, ids, plain)

    def relation_rows(self, ids: Tensor | None = None, *, plain: bool = True) -> Tensor:
        return self.layout.relation_factor * _row(self.model.relation_representations, ids, plain)


def _row(representations: Sequence[Representation], ids: Tensor | None, plain: bool) -> Tensor:
    """Return representations side by side, each flattened; plain ones without dropout, unseen by regularisers."""
    parts = []
    for own in representations:
        formed = own._plain_forward(ids) if plain else own(ids)
        if plain and own.normalizer is not None:
            formed = own.normalizer(formed)
        parts.append(flat_real(formed.flatten(1)))
    return torch.cat(parts, dim=1)


def flat_real(part: Tensor) -> Tensor:
    """Return complex numbers as real parts, then imaginary ones; real numbers as they are."""
    return torch.cat([part.real, part.imag], dim=1) if part.is_complex() else part


class StoredRows(NamedTuple):
    """All rows of a PyKEEN model, relations by PyKEEN's ids, and which model of ours scores them."""

    layout: Layout
    entities: Tensor
    relations: Tensor


def live_rows(model: ERModel) -> StoredRows:
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
