"""Checkpoints of a sharded training: a safetensors file a process, one for what all keep, a manifest. No pickle.

A checkpoint is a folder `epoch-NNNNNN`. Its manifest names every file with its SHA-256 and is written last, by
process 0: without it the checkpoint does not count. Since entity e is row e div N of file e mod N, any number of
processes can read what any other number wrote.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.distributed.rows import PIECE
from staypositive.distributed.world import World
from staypositive.errors import RunError, SettingError
from staypositive.files import sha256_bytes, sha256_file, write_atomic

FORMAT = 1
MANIFEST = "manifest.json"
COMMON = "common.safetensors"
KEPT = 2
"""So many checkpoints are kept: the last, and one to fall back to should it be damaged."""

Tables = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    folder: Path
    processes: int
    state: dict[str, Any]

    def read(self, world: World, sharded: Tables, common: Tables) -> None:
        """Fill this process's rows of the sharded tables, and the common ones, from the files."""
        from safetensors import safe_open

        with safe_open(self.folder / COMMON, "pt") as stored:
            for name, table in common.items():
                table.copy_(stored.get_tensor(name))
        for process in range(self.processes):
            if self.processes == world.size and process != world.rank:
                continue
            with safe_open(self.folder / shard_name(process), "pt") as stored:
                for name, table in sharded.items():
                    self._read_rows(stored.get_slice(name), process, world, table)

    def _read_rows(self, stored: Any, process: int, world: World, table: Tensor) -> None:
        """Take what is this process's from one file's rows, some at a time."""
        for first in range(0, stored.get_shape()[0], PIECE):
            rows = stored[first : first + PIECE]
            ids = process + self.processes * torch.arange(first, first + len(rows))
            own = ids % world.size == world.rank
            table[(ids[own] // world.size).to(table.device)] = rows[own].to(table.device)


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
            write_atomic(own / MANIFEST, _json(manifest | {"sha256": sha256_bytes(_json(manifest))}))
            for old in _newest_first(self.folder)[KEPT:]:
                shutil.rmtree(old)
        world.wait()

    def newest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or None; one of another training is an error."""
        for folder in _newest_first(self.folder):
            try:
                manifest = _manifest(folder)
            except (OSError, ValueError, KeyError):
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
            if self._is_whole(folder, manifest["files"]):
                return Checkpoint(folder, manifest["processes"], manifest["state"])
        return None

    def _is_whole(self, folder: Path, files: dict[str, dict[str, Any]]) -> bool:
        """Whether every file has its hash; each process checks some of them."""
        world, bad = self.world, 0
        for name, entry in list(files.items())[world.rank :: world.size]:
            path = folder / name
            bad += not (path.is_file() and sha256_file(path) == entry["sha256"])
        return int(world.total("checkpoint", torch.tensor([bad], device=world.device))) == 0

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
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    if manifest.pop("sha256") != sha256_bytes(_json(manifest)):
        raise ValueError("its contents do not have the hash that it states")
    return manifest


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
