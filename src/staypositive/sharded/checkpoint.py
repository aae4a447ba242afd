"""Checkpoints of a sharded training: a safetensors file a process, one for what all keep, a manifest. No pickle.

A checkpoint is a folder `epoch-NNNNNN`. Its manifest names every file with its SHA-256 and is written last, by
process 0: without it the checkpoint does not count. Since entity e is row e div N of file e mod N, any number of
processes can read what any other number wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.files import replacing, sha256_file, write_atomic
from staypositive.run.memory import ran_out_of_memory
from staypositive.run.sealed_folder import require_no_link, to_json
from staypositive.sharded.manifest import FORMAT, MANIFEST, Progress, hash_of, read_manifest
from staypositive.sharded.rows import PIECE, rows_of
from staypositive.sharded.world import World
from staypositive.typed import misfit_of

COMMON = "common.safetensors"
KEPT = 2
"""So many checkpoints are kept: the last, and one to fall back to should it be damaged."""

_ADVICE = "Put it back as it was, or train again: the same command goes on from what is whole"
Tables = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    folder: Path
    processes: int
    state: Progress
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each file's size and SHA-256."""
    sha256: str = ""
    """The hash that the manifest states of itself."""
    identity: Any = None
    """Which training it is of."""

    @classmethod
    def of(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        """Return the checkpoint that a manifest describes; its files are not looked at yet."""
        try:
            if manifest["format"] > FORMAT:
                raise RunError(
                    f"{folder} has checkpoint format {manifest['format']}; this version reads up to {FORMAT}"
                )
            processes, state = manifest["processes"], Progress.read(manifest["state"])
            found = cls(folder, processes, state, manifest["files"], hash_of(manifest), manifest["identity"])
            if wrong := misfit_of(found):
                raise ValueError(wrong)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RunError(f"{folder / MANIFEST} is damaged: {type(error).__name__}: {error}") from None
        if not 1 <= found.processes == len(found.files) - 1 or found.files.keys() != found.names():
            raise RunError(
                f"{folder / MANIFEST} is damaged: it does not name the files of {found.processes} processes"
            )
        return found

    @classmethod
    def open(cls, folder: Path, sha256: str) -> Checkpoint:
        """Return the checkpoint of a folder, whose manifest must have that hash; its files are not looked at yet."""
        try:
            found = cls.of(folder, read_manifest(folder))
        except OSError as error:
            raise RunError(f"{folder / MANIFEST} cannot be read: {error.strerror}. {_ADVICE}") from None
        except ValueError as error:
            raise RunError(f"{folder / MANIFEST} is damaged: {error}") from None
        if found.sha256 != sha256:
            raise RunError(f"{folder / MANIFEST} is another one than the run's. {_ADVICE}")
        return found

    def names(self) -> set[str]:
        """Return the names that its files should have."""
        return {*map(shard_name, range(self.processes)), COMMON}

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights the training would end with, were this its end."""
        return self.state.best_epoch or len(self.state.history)

    @property
    def group(self) -> str:
        """Where among the tables the weights of that epoch are: those set aside, or without validation the last."""
        return "best" if self.state.best_epoch else "weights"

    def damaged(self, world: World | None = None) -> list[str]:
        """Return which files are missing or do not have their hash; of several processes, each checks some."""
        names, rank, size = list(self.files), *((0, 1) if world is None else (world.rank, world.size))
        bad = torch.zeros(len(names), dtype=torch.int64)
        for place in range(rank, len(names), size):
            path = self.folder / names[place]
            bad[place] = not (path.is_file() and sha256_file(path) == self.files[names[place]].get("sha256"))
        if world is not None:
            bad = world.all_reduce("checkpoint", bad.to(world.device)).cpu()
        return [name for name, is_bad in zip(names, bad.tolist(), strict=True) if is_bad]

    def require_whole(self, world: World | None = None) -> None:
        """Refuse a checkpoint of which a file is missing or damaged, by name."""
        bad = self.damaged(world)
        if bad:
            there = [("is damaged" if (self.folder / name).is_file() else "is missing", name) for name in bad]
            said = "; ".join(f"{self.folder / name} {what}" for what, name in there)
            raise RunError(f"{said}. {_ADVICE}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say in one error what a file that is none leads to: hashes say that it is whole, not what it is."""
        from safetensors import SafetensorError

        try:
            yield
        except (SafetensorError, IndexError, RuntimeError, TypeError, ValueError) as error:
            if ran_out_of_memory(error):
                raise
            raise RunError(f"{self.folder} is not a readable checkpoint: {error}") from error

    def whole_table(
        self, name: str, shape: tuple[int, ...], rows: int, advance: Callable[[int], Any]
    ) -> Iterator[Tensor]:
        """Yield a sharded table's rows in the order of entities, at most so many at once, or one of each file."""
        from safetensors import safe_open

        each = max(1, rows // self.processes)
        with ExitStack() as opened:
            shards = []
            for process in range(self.processes):
                path = self.folder / shard_name(process)
                stored = opened.enter_context(safe_open(path, "pt")).get_slice(name)
                own = [rows_of(process, self.processes, shape[0]), *shape[1:]]
                if stored.get_shape() != own:
                    raise RunError(f"{path} has {name} of shape {stored.get_shape()}, and {own} was expected")
                shards.append(stored)
            for first in range(0, rows_of(0, self.processes, shape[0]), each):
                parts = [stored[first : first + each] for stored in shards]
                piece = torch.empty(sum(map(len, parts)), *shape[1:])
                for process, part in enumerate(parts):
                    self._require_like(name, part, piece, part.shape)
                    piece[process :: self.processes] = part
                yield piece
                advance(len(piece))

    def common_table(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a table that all processes keep."""
        from safetensors import safe_open

        with safe_open(self.folder / COMMON, "pt") as stored:
            table: Tensor = stored.get_tensor(name)
        self._require_like(name, table, torch.empty(0), shape)
        return table

    def read(self, world: World, sharded: Tables, common: Tables) -> None:
        """Fill this process's rows of the sharded tables, and the common ones, from the files."""
        from safetensors import safe_open

        with safe_open(self.folder / COMMON, "pt") as stored:
            for name, table in common.items():
                found = stored.get_tensor(name)
                self._require_like(name, found, table, table.shape)
                table.copy_(found)
        came = dict.fromkeys(sharded, 0)
        for process in range(self.processes):
            if self.processes == world.size and process != world.rank:
                continue
            with safe_open(self.folder / shard_name(process), "pt") as stored:
                for name, table in sharded.items():
                    came[name] += self._read_rows(name, stored.get_slice(name), process, world, table)
        for name, table in sharded.items():
            if came[name] != len(table):
                raise RunError(f"{self.folder} has {came[name]} rows of {name} for {len(table)} entities")
        for name, table in (common | sharded).items():
            if table.is_floating_point() and not bool(torch.isfinite(table).all()):
                raise RunError(f"{self.folder} has numbers in {name} that are not finite")

    def _read_rows(self, name: str, stored: Any, process: int, world: World, table: Tensor) -> int:
        """Take what is this process's from one file's rows, some at a time; return how many they were."""
        came = 0
        for first in range(0, stored.get_shape()[0], PIECE):
            rows = stored[first : first + PIECE]
            self._require_like(name, rows, table, (len(rows), *table.shape[1:]))
            ids = process + self.processes * torch.arange(first, first + len(rows))
            own = ids % world.size == world.rank
            table[(ids[own] // world.size).to(table.device)] = rows[own].to(table)
            came += int(own.sum())
        return came

    def _require_like(self, name: str, found: Tensor, table: Tensor, shape: tuple[int, ...]) -> None:
        """Refuse a tensor of another shape or kind than its table: copying would stretch or convert it."""
        if found.shape != shape or found.is_floating_point() != table.is_floating_point():
            raise RunError(
                f"{self.folder} has {name} of shape {list(found.shape)} and {found.dtype}, and {list(shape)} of "
                f"{table.dtype} was expected"
            )


class CheckpointFolder:
    """Where a training keeps its checkpoints; `identity` says which training it is."""

    def __init__(self, folder: Path, world: World, identity: dict[str, Any]) -> None:
        require_no_link(folder)
        self.folder, self.world, self.identity = folder, world, identity

    @torch.no_grad()
    def save(self, sharded: Tables, common: Tables, state: Progress) -> None:
        """Write a checkpoint; it counts once every process has written its file and process 0 the manifest."""
        world, own = self.world, self.folder / f"epoch-{len(state.history):06d}"
        require_no_link(own)
        own.mkdir(parents=True, exist_ok=True)
        written = torch.zeros(world.size + 1, 33, dtype=torch.int64)
        written[world.rank] = _write(own / shard_name(world.rank), sharded)
        if world.rank == 0:
            written[-1] = _write(own / COMMON, common)
        written = world.all_reduce("checkpoint", written.to(world.device)).cpu()
        if world.rank == 0:
            names = [*map(shard_name, range(world.size)), COMMON]
            files = {
                name: {"bytes": int(line[0]), "sha256": bytes(line[1:].tolist()).hex()}
                for name, line in zip(names, written, strict=True)
            }
            manifest = {"format": FORMAT, "processes": world.size, "identity": self.identity, "files": files}
            manifest["state"] = state.as_json()
            write_atomic(own / MANIFEST, to_json(manifest | {"sha256": hash_of(manifest)}))
            for old in _newest_first(self.folder)[KEPT:]:
                shutil.rmtree(old)
        world.wait()

    def newest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or None; one of another training is an error."""
        for folder in _newest_first(self.folder):
            try:
                manifest = read_manifest(folder)
            except (OSError, ValueError, RunError):
                continue  # cut short before it counted
            found = Checkpoint.of(folder, manifest)
            if found.identity != self.identity:
                raise SettingError(
                    f"{self.folder} holds a checkpoint of another graph or other settings; use --force to begin "
                    "anew, or another --out"
                )
            if not found.damaged(self.world):
                return found
        return None

    def remove(self) -> None:
        """Delete all checkpoints."""
        self.world.wait()
        if self.world.rank == 0:
            remove_checkpoints(self.folder)
        self.world.wait()


def remove_checkpoints(folder: Path) -> None:
    """Delete a folder's checkpoints, and the folder where nothing else is in it."""
    require_no_link(folder)
    for old in _newest_first(folder):
        shutil.rmtree(old)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def shard_name(process: int) -> str:
    """Return the name of a process's file."""
    return f"shard-{process:05d}.safetensors"


def _write(path: Path, tables: Tables) -> Tensor:
    """Write tables to a file; return its size, then the bytes of its SHA-256."""
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        save_file({name: table.detach().cpu().contiguous() for name, table in tables.items()}, temporary)
    return torch.tensor([path.stat().st_size, *bytes.fromhex(sha256_file(path))])


def _newest_first(folder: Path) -> list[Path]:
    """Return the folders of checkpoints; a link is none, since it could lead to those of another training."""
    found = [path for path in folder.glob("epoch-*") if path.is_dir() and not path.is_symlink()]
    return sorted(found, reverse=True)
