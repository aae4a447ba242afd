"""Checkpoints of a sharded training: a safetensors file a process, one for what all keep, a manifest. No pickle.

A checkpoint is a folder `epoch-NNNNNN`. Its manifest names every file with its SHA-256 and is written last, by
process 0: without it the checkpoint does not count. Since entity e is row e div N of file e mod N, any number of
processes can read what any other number wrote.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.distributed.rows import PIECE, rows_of
from staypositive.distributed.world import World
from staypositive.errors import RunError, SettingError
from staypositive.files import sha256_bytes, sha256_file, write_atomic
from staypositive.run.checking import parsed, read_plain
from staypositive.typed import fits, misfit_of

FORMAT = 1
MANIFEST = "manifest.json"
MOST_MANIFEST = 2**28
"""Bytes of a manifest, which holds the whole history."""
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
    state: dict[str, Any]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each file's size and SHA-256."""
    sha256: str = ""
    """The hash that the manifest states of itself."""

    @classmethod
    def of(cls, folder: Path, manifest: dict[str, Any]) -> Checkpoint:
        """Return the checkpoint that a manifest describes; its files are not looked at yet."""
        return cls(folder, manifest["processes"], manifest["state"], manifest["files"], _hash_of(manifest))

    @classmethod
    def open(cls, folder: Path, sha256: str) -> Checkpoint:
        """Return the checkpoint of a folder, whose manifest must have that hash; its files are not looked at yet."""
        try:
            found = cls.of(folder, _manifest(folder))
        except OSError as error:
            raise RunError(f"{folder / MANIFEST} cannot be read: {error.strerror}. {_ADVICE}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{folder / MANIFEST} is damaged: {error}") from None
        state = found.state
        is_odd = misfit_of(found) or not (fits(state.get("best_epoch"), int) and fits(state.get("history"), list))
        if found.sha256 != sha256 or is_odd:
            raise RunError(f"{folder / MANIFEST} is another one than the run's. {_ADVICE}")
        if not 1 <= found.processes == len(found.files) - 1 or found.files.keys() != found.names():
            raise RunError(
                f"{folder / MANIFEST} is damaged: it does not name the files of {found.processes} processes"
            )
        return found

    def names(self) -> set[str]:
        """Return the names that its files should have."""
        return {*map(shard_name, range(self.processes)), COMMON}

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights the training would end with, were this its end."""
        return int(self.state["best_epoch"] or len(self.state["history"]))

    @property
    def group(self) -> str:
        """Where among the tables the weights of that epoch are: those set aside, or without validation the last."""
        return "best" if int(self.state["best_epoch"]) else "weights"

    def damaged(self, world: World | None = None) -> list[str]:
        """Return which files are missing or do not have their hash; of several processes, each checks some."""
        names, rank, size = list(self.files), *((0, 1) if world is None else (world.rank, world.size))
        bad = torch.zeros(len(names), dtype=torch.int64)
        for place in range(rank, len(names), size):
            path = self.folder / names[place]
            bad[place] = not (path.is_file() and sha256_file(path) == self.files[names[place]].get("sha256"))
        if world is not None:
            bad = world.total("checkpoint", bad.to(world.device)).cpu()
        return [name for name, is_bad in zip(names, bad.tolist(), strict=True) if is_bad]

    def require_whole(self, world: World | None = None) -> None:
        """Refuse a checkpoint of which a file is missing or damaged, by name."""
        bad = self.damaged(world)
        if bad:
            there = [("is damaged" if (self.folder / name).is_file() else "is missing", name) for name in bad]
            said = "; ".join(f"{self.folder / name} {what}" for what, name in there)
            raise RunError(f"{said}. {_ADVICE}")

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
                    piece[process :: self.processes] = part
                yield piece
                advance(len(piece))

    def common_table(self, name: str) -> Tensor:
        """Return a table that all processes keep."""
        from safetensors import safe_open

        with safe_open(self.folder / COMMON, "pt") as stored:
            table: Tensor = stored.get_tensor(name)
        return table

    def read(self, world: World, sharded: Tables, common: Tables) -> None:
        """Fill this process's rows of the sharded tables, and the common ones, from the files."""
        from safetensors import safe_open

        with safe_open(self.folder / COMMON, "pt") as stored:
            for name, table in common.items():
                table.copy_(stored.get_tensor(name))
        came = dict.fromkeys(sharded, 0)
        for process in range(self.processes):
            if self.processes == world.size and process != world.rank:
                continue
            with safe_open(self.folder / shard_name(process), "pt") as stored:
                for name, table in sharded.items():
                    came[name] += self._read_rows(stored.get_slice(name), process, world, table)
        for name, table in sharded.items():
            if came[name] != len(table):
                raise RunError(f"{self.folder} has {came[name]} rows of {name} for {len(table)} entities")

    def _read_rows(self, stored: Any, process: int, world: World, table: Tensor) -> int:
        """Take what is this process's from one file's rows, some at a time; return how many they were."""
        came = 0
        for first in range(0, stored.get_shape()[0], PIECE):
            rows = stored[first : first + PIECE]
            ids = process + self.processes * torch.arange(first, first + len(rows))
            own = ids % world.size == world.rank
            table[(ids[own] // world.size).to(table.device)] = rows[own].to(table)
            came += int(own.sum())
        return came


class CheckpointFolder:
    """Where a training keeps its checkpoints; `identity` says which training it is."""

    def __init__(self, folder: Path, world: World, identity: dict[str, Any]) -> None:
        self.folder, self.world, self.identity = folder, world, identity

    @torch.no_grad()
    def save(self, epoch: int, sharded: Tables, common: Tables, state: dict[str, Any]) -> None:
        """Write a checkpoint; it counts once every process has written its file and process 0 the manifest."""
        world, own = self.world, self.folder / f"epoch-{epoch:06d}"
        own.mkdir(parents=True, exist_ok=True)
        written = torch.zeros(world.size + 1, 33, dtype=torch.int64)
        written[world.rank] = _write(own / shard_name(world.rank), sharded)
        if world.rank == 0:
            written[-1] = _write(own / COMMON, common)
        written = world.total("checkpoint", written.to(world.device)).cpu()
        if world.rank == 0:
            names = [*map(shard_name, range(world.size)), COMMON]
            files = {
                name: {"bytes": int(line[0]), "sha256": bytes(line[1:].tolist()).hex()}
                for name, line in zip(names, written, strict=True)
            }
            manifest = {"format": FORMAT, "processes": world.size, "identity": self.identity, "files": files}
            manifest["state"] = state
            write_atomic(own / MANIFEST, _json(manifest | {"sha256": _hash_of(manifest)}))
            for old in _newest_first(self.folder)[KEPT:]:
                shutil.rmtree(old)
        world.wait()

    def newest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or None; one of another training is an error."""
        for folder in _newest_first(self.folder):
            try:
                manifest = _manifest(folder)
            except (OSError, ValueError, KeyError, RunError):
                continue  # cut short before it counted
            if manifest["format"] > FORMAT:
                raise RunError(
                    f"{folder} has checkpoint format {manifest['format']}; this version reads up to {FORMAT}"
                )
            if manifest["identity"] != self.identity:
                raise SettingError(
                    f"{self.folder} holds a checkpoint of another graph or other settings; use --force to begin "
                    "anew, or another --out"
                )
            found = Checkpoint.of(folder, manifest)
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
    for old in folder.glob("epoch-*"):
        shutil.rmtree(old)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def shard_name(process: int) -> str:
    """Return the name of a process's file."""
    return f"shard-{process:05d}.safetensors"


def _write(path: Path, tables: Tables) -> Tensor:
    """Write tables to a file; return its size, then the bytes of its SHA-256."""
    from safetensors.torch import save_file

    save_file({name: table.detach().cpu().contiguous() for name, table in tables.items()}, path)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    return torch.tensor([path.stat().st_size, *bytes.fromhex(sha256_file(path))])


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*"), reverse=True)


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = parsed(read_plain(folder / MANIFEST, MOST_MANIFEST))
    if manifest.pop("sha256") != _hash_of(manifest):
        raise ValueError("its contents do not have the hash that it states")
    return manifest


def _hash_of(manifest: dict[str, Any]) -> str:
    return sha256_bytes(_json(manifest))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
