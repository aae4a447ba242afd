"""Checkpoints of a sharded training: a file of rows per process, one of what all keep, a manifest. No pickle.

A checkpoint is a folder `epoch-NNNNNN`. Its manifest names every file with its SHA-256 and is written last, by
process 0: without it the checkpoint does not count. Since entity e is row e div N of file e mod N, any number of
processes can read what any other number wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import RunError
from staypositive.files import require_no_link, write_atomic
from staypositive.models import BilinearModel
from staypositive.run.checking import largest_weights, require_bounded
from staypositive.run.checkpoint import HISTORY, TRAINING, CheckpointFolder, readable
from staypositive.run.folder import read_history
from staypositive.sealed_folder import Files, FolderKind, UnsealedError, entry_of, fault
from staypositive.tensors import tensors_from_bytes, tensors_to_bytes, write_tensors
from staypositive.training import EpochRecord, State, TrainingState, World
from staypositive.training.state import under, within
from staypositive.training.world import PIECE, rows_of

COMMON = "common.safetensors"
SHARDED = FolderKind(
    name="checkpoint",
    manifest="manifest.json",
    format=2,
    oldest=2,  # 1 had other tables, and the history in its manifest
    how_to_make="one is made while training",
    roles=(COMMON, HISTORY, TRAINING),
    more=r"shard-\d{5,}\.safetensors",  # one of each process
)
KEPT = 2
"""Number of checkpoints that are kept: the last, and one to fall back to should it be damaged."""


@dataclass(frozen=True)
class ShardedCheckpoint:
    """A checkpoint that counts; its files are not looked at before they are needed."""

    folder: Path
    files: Files
    sha256: str
    """The hash that the manifest states of itself."""

    @classmethod
    def at(cls, folder: Path) -> ShardedCheckpoint:
        """Return the checkpoint in a folder; `UnsealedError` where it was cut short before it counted."""
        manifest = SHARDED.read_manifest(folder)
        found = cls(folder, manifest["files"], manifest["sha256"])
        if found.processes < 1 or found.files.keys() != {*map(shard_name, range(found.processes)), *SHARDED.roles}:
            raise RunError(
                f"{folder / SHARDED.manifest} is damaged: it does not name the files of {found.processes} processes"
            )
        return found

    @property
    def processes(self) -> int:
        return len(self.files) - len(SHARDED.roles)

    @cached_property
    def history(self) -> tuple[EpochRecord, ...]:
        with readable(self.folder):
            return read_history(SHARDED.load(self.folder, (HISTORY,))[HISTORY])

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights the training would end with, were this its end."""
        return max((record.epoch for record in self.history if record.is_best), default=len(self.history))

    def damage(self, world: World | None = None) -> str:
        """Return which files are missing or do not have their hash; of several processes, each checks some."""
        names, rank, size = list(self.files), *((0, 1) if world is None else (world.rank, world.size))
        bad = torch.zeros(len(names), dtype=torch.int64)
        for place in range(rank, len(names), size):
            bad[place] = bool(fault(self.folder / names[place], self.files[names[place]]))
        if world is not None:
            bad = world.all_reduce("checkpoint", bad.to(world.device)).cpu()
        paths = [self.folder / name for name, is_bad in zip(names, bad.tolist(), strict=True) if is_bad]
        return "; ".join(f"{path} {'is damaged' if path.is_file() else 'is missing'}" for path in paths)

    @cached_property
    def common(self) -> State:
        return tensors_from_bytes(SHARDED.load(self.folder, (COMMON,))[COMMON])

    def weights(
        self, name: str, shape: Sequence[int], rank: int = 0, size: int = 1, rows: int = PIECE
    ) -> Iterator[Tensor]:
        """Yield the weights of a model's table in pieces: if it is sharded, the rows of process `rank` of `size`."""
        stored = ("best." if any(record.is_best for record in self.history) else "model.") + name
        return self.rows(stored, shape, rank, size, rows) if _is_sharded(name) else iter([self._alike(stored, shape)])

    def rows(self, name: str, shape: Sequence[int], rank: int, size: int, most: int = PIECE) -> Iterator[Tensor]:
        """Yield the rows of process `rank` of `size`, in order, whatever number of processes wrote them.

        `shape` is that of the whole table. At most `most` rows are in memory at once, or one of each file.
        """
        from safetensors import safe_open

        count, each = self.processes, max(1, most // self.processes) * self.processes
        with ExitStack() as opened:
            shards = {}
            for process in [rank] if count == size else range(count):
                path = self.folder / shard_name(process)
                shards[process] = stored = opened.enter_context(safe_open(path, "pt")).get_slice(name)
                own = [rows_of(process, count, shape[0]), *shape[1:]]
                if stored.get_shape() != own:
                    raise RunError(f"{path} has {name} of shape {stored.get_shape()}, and {own} was expected")
            for ids in torch.arange(rank, shape[0], size).split(each):
                piece = torch.empty(0)
                for process, stored in shards.items():
                    is_here = ids % count == process
                    places = ids[is_here] // count
                    if len(places):
                        part = stored[int(places[0]) : int(places[-1]) + 1]
                        if not part.is_floating_point():
                            raise RunError(f"{self.folder / shard_name(process)} has {name} of {part.dtype}")
                        piece = piece if len(piece) else part.new_empty(len(ids), *shape[1:])
                        piece[is_here] = part[places - places[0]]
                yield piece

    def _alike(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a table that all processes keep."""
        found = self.common[name]
        if list(found.shape) != list(shape) or not found.is_floating_point():
            said = f"has {name} of shape {list(found.shape)} and {found.dtype}, and not {list(shape)}"
            raise RunError(f"{self.folder / COMMON} {said}")
        return found


class ShardedCheckpointFolder(CheckpointFolder):
    """Keeps the state of a sharded training; every process calls each method.

    The tensors whose names end in `entities` hold the process's rows only; all others are alike in every process.
    """

    kind = SHARDED
    free = ("epochs", "patience", "device")

    def __init__(self, world: World, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for path in (self.folder, *self.folder.glob("epoch-*")):
            require_no_link(path)
        self.world = world

    def is_due(self, epoch: int) -> bool:
        """Whether enough epochs or time have gone by, as process 0 sees it."""
        is_due = super().is_due(epoch)
        return is_due if self.epochs_between is not None else bool(self.world.from_first([is_due])[0])

    def newest(self) -> ShardedCheckpoint | None:
        """Return the newest checkpoint that is whole, or None."""
        for folder in _newest_first(self.folder):
            try:
                found = ShardedCheckpoint.at(folder)
            except UnsealedError:
                continue  # cut short before it counted
            if not found.damage(self.world):
                return found
        return None

    def remove(self) -> None:
        self.world.wait()
        if self.world.rank == 0:
            remove_checkpoints(self.folder)
        self.world.wait()

    def _place(self) -> Path | None:
        found = self.newest()
        return None if found is None else found.folder

    def _tensors(self, place: Path, contents: Mapping[str, bytes]) -> tuple[State, State]:
        assert self.engine is not None
        found, model = ShardedCheckpoint.at(place), self.engine.model
        state = tensors_from_bytes(contents[COMMON])
        wanted = self.engine.state() | under("best", model.state_dict() if within("best", state) else {})
        for name, own in wanted.items():
            if _is_sharded(name):
                whole = model.n_entities, *own.shape[1:]
                state[name] = torch.cat(list(found.rows(name, whole, self.world.rank, self.world.size)))
        best = within("best", state)
        return {name: tensor for name, tensor in state.items() if not name.startswith("best.")}, best

    def _write(self, state: TrainingState, contents: dict[str, bytes]) -> None:
        own, world = self.folder / f"epoch-{len(state.history):06d}", self.world
        tensors = state.engine | under("best", state.best_weights)
        files: Files = {}

        def write() -> list[int]:
            require_no_link(own)
            path = own / shard_name(world.rank)
            write_tensors(path, {name: tensor for name, tensor in tensors.items() if _is_sharded(name)})
            if world.rank == 0:
                common = {name: tensor for name, tensor in tensors.items() if not _is_sharded(name)}
                for role, data in (contents | {COMMON: tensors_to_bytes(common)}).items():
                    files[role] = entry_of(write_atomic(own / role, data))
            entry = entry_of(path)
            return [entry["bytes"], *bytes.fromhex(entry["sha256"])]

        def seal() -> list[int]:
            if world.rank == 0:
                SHARDED.seal(own, files, {"writer": self.origin["version"]})
                for old in _newest_first(self.folder)[KEPT:]:
                    shutil.rmtree(old)
            return [0] * 33

        for process, (size, *digest) in enumerate(self._together(write)):
            files[shard_name(process)] = {"bytes": size, "sha256": bytes(digest).hex()}
        self._together(seal)

    def _together(self, work: Callable[[], list[int]]) -> list[list[int]]:
        """Let all processes do some work, and return what each came to; if one cannot write, all raise `RunError`."""
        world, said = self.world, "another process could not"
        results = torch.zeros(world.size, 34, dtype=torch.int64)
        try:
            results[world.rank] = torch.tensor([1, *work()])
        except OSError as error:
            said = error.strerror or str(error)
        results = world.all_reduce("checkpoint", results.to(world.device)).cpu()
        if not bool(results[:, 0].all()):
            raise RunError(f"cannot write the checkpoint to {self.folder}: {said}")
        return [[int(number) for number in line] for line in results[:, 1:].tolist()]

    def _require_bounded(self, model: BilinearModel) -> None:
        require_bounded_share(model, self.world)


def require_bounded_share(model: BilinearModel, world: World) -> None:
    """Refuse weights that lead to scores which 32 bits cannot hold, whichever processes have their rows."""
    own = largest_weights(model.entities.detach())
    of_all = own.new_zeros(world.size, len(own))
    of_all[world.rank] = own
    require_bounded(model, world.all_reduce("checkpoint", of_all).amax(0))


def remove_checkpoints(folder: Path) -> None:
    """Delete a folder's checkpoints, and the folder where nothing else is in it."""
    require_no_link(folder)
    for old in _newest_first(folder):
        shutil.rmtree(old)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def shard_name(process: int) -> str:
    return f"shard-{process:05d}.safetensors"


def _is_sharded(name: str) -> bool:
    return name.split(".")[-1] == "entities"


def _newest_first(folder: Path) -> list[Path]:
    """Return the folders of checkpoints; a link is none, since it could lead to those of another training."""
    found = [path for path in folder.glob("epoch-*") if path.is_dir() and not path.is_symlink()]
    return sorted(found, reverse=True)
