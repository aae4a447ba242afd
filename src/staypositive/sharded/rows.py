"""How many entity rows a process has, and how it comes by those of others (see `training.sharded_store`)."""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.training import World

PIECE = 1 << 16
"""Rows of all processes: which has which, and tables and answers that pass between them."""


def rows_of(process: int, processes: int, n_entities: int) -> int:
    """Return how many of the entities live with a process.

    >>> [rows_of(process, 3, 8) for process in range(3)]
    [3, 3, 2]
    """
    return len(range(process, n_entities, processes))


def fetch_everywhere(world: World, table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows of entities to every process alike, given the same ids: what asks every process a question."""
    rows = table.new_zeros(len(ids), table.shape[1])
    mine, places = world.own(ids)
    rows[mine] = table[places]
    return world.all_reduce("ranking", rows)


def send_to_first(world: World, purpose: str, rows: Tensor) -> Tensor:
    """Return all processes' rows, one after another, to process 0, and none to the others."""
    nothing = [0] * world.size
    receives = world.counts(purpose, torch.tensor([len(rows), *nothing[1:]], device=rows.device))
    return world.exchange(purpose, rows, [len(rows), *nothing[1:]], receives)


def gather(world: World, table: Tensor, n_entities: int) -> Tensor | None:
    """Return a whole table, on the CPU, to process 0, and None to the others."""
    found = send_to_first(world, "gather", table)
    if world.rank != 0:
        return None
    whole = torch.empty(n_entities, table.shape[1], dtype=table.dtype)
    counts = [rows_of(process, world.size, n_entities) for process in range(world.size)]
    for process, part in enumerate(found.cpu().split(counts)):
        whole[process :: world.size] = part
    return whole
