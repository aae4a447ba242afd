"""Where a training stands, as named tensors: what a checkpoint saves and restores."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from staypositive.errors import RunError

State = dict[str, Tensor]


def under(prefix: str, tensors: Mapping[str, Tensor]) -> State:
    """Return tensors under a common prefix.

    >>> list(under("model", {"entities": torch.zeros(1)}))
    ['model.entities']
    """
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def within(prefix: str, state: Mapping[str, Tensor]) -> State:
    """Return the tensors that `under` put under a prefix, by the names that they had."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in state.items() if name.startswith(start)}


@torch.no_grad()
def copy_into(own: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    """Give each of our tensors the value kept under its name, in place: others may look at the same memory."""
    for name, tensor in own.items():
        found = kept.get(name)
        if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
            came = "nothing" if found is None else f"{tuple(found.shape)} of {found.dtype}"
            raise RunError(
                f"the state of a training does not fit this one: expected {name} of shape {tuple(tensor.shape)} and "
                f"{tensor.dtype}, got {came}"
            )
        tensor.copy_(found)
