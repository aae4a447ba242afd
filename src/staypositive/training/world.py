"""Where a training runs: its device, and the processes that share it by collectives, with what they send counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from staypositive.errors import SettingError

_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
PIECE = 1 << 16
"""Rows of all processes that pass through memory at once."""


def resolve_device(name: str) -> torch.device:
    """Return the device of that name; `auto` takes CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise SettingError(f"expected a device such as auto, cpu, cuda or cuda:1, got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"expected a device such as auto, cpu, cuda or cuda:1, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(f"no CUDA device {name!r} is available here; use --device cpu")
    return device


def is_launched() -> bool:
    """Whether torchrun, or another launcher of several processes, started this one."""
    return dist.is_torchelastic_launched() or int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this process is the one that speaks and saves: process 0, or a process on its own."""
    return not is_launched() or os.environ.get("RANK", "0") == "0"


def restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def own_device() -> str:
    """Return the kind of device that every process of this machine can have for its own: a GPU, or the CPU."""
    return "cuda" if torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")) else "cpu"


def rows_of(process: int, processes: int, n_entities: int) -> int:
    """Return how many of the entities live with a process.

    >>> [rows_of(process, 3, 8) for process in range(3)]
    [3, 3, 2]
    """
    return len(range(process, n_entities, processes))


class World:
    """All processes of a training, as one of them sees them.

    `sent` counts the bytes that this process hands to collectives, by purpose: what it sends to others in an
    exchange, and the tensor itself in a sum (a ring then moves up to twice that).
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device
        self.sent: Counter[str] = Counter()

    @property
    def backend(self) -> str:
        return str(dist.get_backend())

    def own(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of some entities live with this process, shape as given, and the places of those rows."""
        mine = ids % self.size == self.rank
        return mine, ids[mine] // self.size

    def all_reduce(self, purpose: str, tensor: Tensor) -> Tensor:
        """Return the sum of all processes' tensors, the same for each of them; the tensor given is overwritten."""
        if tensor.numel():
            self.sent[purpose] += tensor.nbytes if self.size > 1 else 0
            dist.all_reduce(tensor)
        return tensor

    def exchange(self, purpose: str, rows: Tensor, sends: list[int], receives: list[int]) -> Tensor:
        """Send a number of the rows to each process, in order, and return what they sent, in order of sender."""
        others = len(rows) - sends[self.rank]
        self.sent[purpose] += others * rows[:1].nbytes if len(rows) else 0
        found = rows.new_empty(sum(receives), *rows.shape[1:])
        dist.all_to_all_single(found, rows.contiguous(), receives, sends)
        return found

    def counts(self, purpose: str, sends: Tensor) -> list[int]:
        """Return how many rows each process will send, given how many it is sent by this one, shape (processes,)."""
        self.sent[purpose] += sends[1:].nbytes
        found = torch.empty_like(sends)
        dist.all_to_all_single(found, sends)
        return [int(count) for count in found.tolist()]

    def rows_everywhere(self, purpose: str, table: Tensor, ids: Tensor) -> Tensor:
        """Return the rows of entities to every process alike, given the same ids."""
        rows = table.new_zeros(len(ids), table.shape[1])
        mine, places = self.own(ids)
        rows[mine] = table[places]
        return self.all_reduce(purpose, rows)

    def to_first(self, purpose: str, rows: Tensor) -> Tensor:
        """Return all processes' rows, one after another, to process 0, and none to the others."""
        sends = [len(rows), *[0] * (self.size - 1)]
        return self.exchange(purpose, rows, sends, self.counts(purpose, torch.tensor(sends, device=rows.device)))

    def gather(self, table: Tensor, n_entities: int) -> Tensor | None:
        """Return a whole table, on the CPU, to process 0, and None to the others."""
        found = self.to_first("gather", table)
        if self.rank != 0:
            return None
        whole = torch.empty(n_entities, table.shape[1], dtype=table.dtype)
        counts = [rows_of(process, self.size, n_entities) for process in range(self.size)]
        for process, part in enumerate(found.cpu().split(counts)):
            whole[process :: self.size] = part
        return whole

    def from_first(self, numbers: list[int]) -> list[int]:
        """Return the numbers that process 0 gives, to every process."""
        own = torch.tensor(numbers if self.rank == 0 else [], dtype=torch.int64, device=self.device)
        count = int(self.all_reduce("agreeing", torch.tensor([len(own)], device=self.device)))
        given = torch.zeros(count, dtype=torch.int64, device=self.device)
        given[: len(own)] = own
        return [int(number) for number in self.all_reduce("agreeing", given).tolist()]

    def wait(self) -> None:
        dist.barrier()


@contextmanager
def open_world(device: str = "auto") -> Iterator[World]:
    """Join the processes that the launcher started: by NCCL where each has a GPU, else by gloo."""
    place = resolve_device(device)
    if place.type == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise SettingError(
                f"process {local} of this machine has no GPU of its own (there are {torch.cuda.device_count()}); "
                "start fewer processes, or use --device cpu"
            )
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    store, rank, size = next(rendezvous("env://"))
    # torchrun keeps one store through all restarts: each needs its own keys, lest it reads the last one's addresses
    own = PrefixStore(f"restart {restarts()} of {size}", store)
    device_id = place if place.type == "cuda" else None
    dist.init_process_group(_BACKENDS[place.type], store=own, rank=rank, world_size=size, device_id=device_id)
    try:
        yield World(place)
    finally:
        dist.destroy_process_group()
