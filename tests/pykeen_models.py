"""PyKEEN's models in small, for the tests of the plug-in."""

from __future__ import annotations

from typing import Any

MODELS = ("DistMult", "SimplE", "ComplEx", "HolE", "RESCAL", "CP")
TRAIN = {"use_tqdm": False, "pin_memory": False}
"""Arguments of PyKEEN's `train` that keep it from drawing bars and from warning that there is no GPU."""


def small_model(name: str, factory: Any, *, plain: bool = False, **settings: Any) -> Any:
    """A PyKEEN model as it is initialised, in double precision; `plain` takes away its default regulariser."""
    import pykeen.models
    from pykeen.regularizers import NoRegularizer

    if plain and name not in ("HolE", "CP"):
        settings["regularizer"] = NoRegularizer()
    sizes = {"embedding_dim": 3, "rank": 2} if name == "CP" else {"embedding_dim": 6}
    return getattr(pykeen.models, name)(triples_factory=factory, random_seed=0, **sizes, **settings).double()


def all_triples(model: Any) -> Any:
    """Every triple there is, by PyKEEN's relation ids."""
    import torch

    return torch.cartesian_prod(
        torch.arange(model.num_entities), torch.arange(model.num_relations), torch.arange(model.num_entities)
    )


def train(loop: Any, factory: Any, **options: Any) -> list[float]:
    return loop.train(factory, **({"num_epochs": 1, "batch_size": 256} | TRAIN | options))
