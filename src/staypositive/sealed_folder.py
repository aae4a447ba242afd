"""Folders on disk that are whole or not there: a manifest names every file with its SHA-256. No pickle anywhere.

All kinds are a `FolderKind`: runs, checkpoints, shards of checkpoints, graphs on disk. The manifest is written last,
atomically, and is the moment the folder counts. A folder that is replaced in place (`save`) has its new files written
beside the old ones, since a file's name holds its hash, and files no longer named are removed last: a reader always
finds one whole state, whenever a save was cut short. A folder that is written once (`seal`) keeps plain names.

Compatibility: a folder of format N is read by every version of staypositive whose format is N or later, unless the
kind says otherwise.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from staypositive.errors import RunError
from staypositive.files import (
    LOCK,
    locked,
    parsed,
    read_plain,
    replacing,
    require_no_link,
    sha256_bytes,
    sha256_file,
    sync_folder,
    to_json,
    write_atomic,
)  # fmt: skip
from staypositive.typed import fits

Contents = Mapping[str, bytes | Iterable[bytes]]
"""What to keep by role: bytes, or pieces of what is too large to have at once."""
Files = dict[str, dict[str, Any]]
"""What a manifest says of each role's file: `sha256`, `bytes`, and `file` where it is not called as its role."""


class UnsealedError(RunError):
    """A folder has no manifest that states its own hash: nothing was ever kept in it, or a save was cut short."""


@dataclass(frozen=True)
class FolderKind:
    """What one kind of folder holds. `roles` are its files by their names without hashes, `rooms` its subfolders."""

    name: str
    manifest: str
    """The file that names all others."""
    format: int
    how_to_make: str
    roles: tuple[str, ...] = ()
    more: str = ""
    """A pattern of further files, in folders that are written once."""
    rooms: tuple[str, ...] = ()
    oldest: int = 1
    """The first format that is still read."""
    most: int = 2**20
    """Bytes of a manifest."""

    @cached_property
    def _own_names(self) -> re.Pattern[str]:
        parts = (role.split(".") for role in self.roles)
        hashed = "|".join(rf"{stem}\.[0-9a-f]{{12}}\.{suffix}" for stem, suffix in parts)
        begun = "|".join(map(re.escape, (self.manifest, *self.roles)))
        return re.compile(rf"(?:{hashed})|\.(?:{begun}|{hashed})\.[^.]+\.part")

    def _is_role(self, name: str) -> bool:
        return name in self.roles or re.fullmatch(self.more, name) is not None

    def owns(self, path: Path) -> bool:
        """Whether a file is of a save, finished or cut short; nobody else's may ever match."""
        if path.is_dir() and not path.is_symlink():
            return path.name in self.rooms
        return path.name == LOCK or self._own_names.fullmatch(path.name) is not None

    def save(self, folder: Path, contents: Contents, writer: str, format: int | None = None) -> None:
        """Write all files, then the manifest that makes them count; another process may not write meanwhile.

        `format` is that of the contents, where an earlier one than this kind's will do.
        """
        self._write(folder, contents, {}, writer, format or self.format)

    def update(self, folder: Path, contents: Contents, writer: str, same: Mapping[str, str] | None = None) -> None:
        """Write some files anew and leave the others untouched.

        `same` are SHA-256s by role that the others must still have: what is written was made from them.
        """
        with locked(folder):
            manifest = self.read_manifest(folder)
            files = manifest["files"]
            if any(files.get(role, {}).get("sha256") != digest for role, digest in (same or {}).items()):
                raise RunError(f"the {self.name} in {folder} was replaced meanwhile, so nothing is kept in it")
            self._write(folder, contents, files, writer, manifest["format"])

    def seal(self, folder: Path, files: Files, about: Mapping[str, Any], format: int | None = None) -> None:
        """Write the manifest of files that are there already, and what else it is to say."""
        manifest = {"format": format or self.format, **about, "files": files}
        write_atomic(folder / self.manifest, to_json(manifest | {"sha256": sha256_bytes(to_json(manifest))}))
        sync_folder(folder)  # the new names are on disk before any old ones go

    def _write(self, folder: Path, contents: Contents, others: Files, writer: str, format: int) -> None:
        self.require_writable(folder)
        with locked(folder):
            self._sweep(folder)  # what a save that was cut short has left may be the room that this one needs
            try:
                files = others | {role: _write_hashed(folder, role, data) for role, data in contents.items()}
                self.seal(folder, files, {"writer": writer}, format)
            except (OSError, RunError) as error:
                self._sweep(folder)
                if isinstance(error, RunError):
                    raise
                raise RunError(f"cannot write the {self.name} to {folder}: {error.strerror or error}") from error
            self._sweep(folder)

    def require_writable(self, folder: Path) -> None:
        """Find out, before hours of work, whether something can be kept in a folder, and not among others' files."""
        for room in self.rooms:
            require_no_link(folder / room)
        try:
            if folder.exists() and not folder.is_dir():
                raise RunError(f"{folder} is a file; a {self.name} needs a folder")
            others = [] if self.is_in(folder) or not folder.is_dir() else list(folder.iterdir())
            if left := sorted(path.name for path in others if not self.owns(path)):
                raise RunError(
                    f"{folder} holds files that are not a {self.name}'s ({left[0]}, ...); choose another folder"
                )
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise RunError(f"cannot write to {folder}: {error.strerror or error}") from error

    def clear(self, folder: Path) -> None:
        """Remove what is ours, the manifest first; the folder too, if nothing else is in it."""
        require_no_link(folder)
        if not folder.is_dir():
            return
        with locked(folder):
            (folder / self.manifest).unlink(missing_ok=True)
            self._sweep(folder)
        if not any(folder.iterdir()):
            folder.rmdir()

    def _sweep(self, folder: Path) -> None:
        """Remove files that a save left and the manifest does not name; none while that cannot be read."""
        try:
            files = self.files(folder) if self.is_in(folder) else {}
        except RunError:
            return
        named = {LOCK, *(entry.get("file", role) for role, entry in files.items())}
        for path in folder.iterdir():
            if path.name not in named and path.is_file() and self.owns(path):
                path.unlink(missing_ok=True)

    def is_in(self, folder: Path) -> bool:
        return (folder / self.manifest).exists()

    def load(self, folder: Path, roles: Container[str] | None = None) -> dict[str, bytes]:
        """Read and check all files, or those of some roles, by role; a save that comes amidst is waited for."""
        while True:
            files = self.files(folder)
            wanted = {role: entry for role, entry in files.items() if roles is None or role in roles}
            try:
                return {role: self._read_checked(folder, role, entry) for role, entry in wanted.items()}
            except RunError:
                if self.files(folder) == files:  # else a save has just replaced what we were reading
                    raise

    def files(self, folder: Path) -> Files:
        return cast(Files, self.read_manifest(folder)["files"])

    def read_manifest(self, folder: Path) -> dict[str, Any]:
        """Return what the manifest says, its own hash checked; the files are not looked at."""
        path = folder / self.manifest
        try:
            manifest = parsed(read_plain(path, self.most))
            if not isinstance(manifest, dict):
                raise ValueError("it is no table")
            found = manifest.get("format")
            sealed = {name: value for name, value in manifest.items() if name != "sha256"}
            is_whole = manifest.get("sha256") == sha256_bytes(to_json(sealed))
        except FileNotFoundError:
            raise UnsealedError(f"there is no {self.name} in {folder} (no {path.name}); {self.how_to_make}") from None
        except RunError as error:
            raise UnsealedError(str(error)) from None
        except ValueError as error:
            raise UnsealedError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        if isinstance(found, int) and not self.oldest <= found <= self.format:
            writer = f", written by staypositive {manifest['writer']!s:.40}" if "writer" in manifest else ""
            reads = f"up to {self.format}. Upgrade it" if found > self.format else f"none before {self.oldest}"
            raise RunError(f"{folder} has {self.name} format {found}{writer}; this staypositive reads {reads}")
        if not is_whole:
            raise UnsealedError(f"{path} is damaged: its contents do not have the hash that it states")
        if not fits(found, int):
            raise RunError(f"{path} is damaged: it states no format")
        self._require_names(path, manifest.get("files"))
        return manifest

    def _require_names(self, path: Path, files: Any) -> None:
        """Refuse files that a folder of this kind does not have, or that lie elsewhere."""
        if not fits(files, Files) or not all(map(self._is_role, files)):
            raise RunError(f"{path} is damaged: it names files that no {self.name} has")
        for role, entry in files.items():
            name = entry.get("file", role)
            if not isinstance(name, str) or not name or Path(name).name != name:
                raise RunError(f"{path} names a file outside the {self.name} for {role}: {name!r:.80}")

    def _read_checked(self, folder: Path, role: str, entry: dict[str, Any]) -> bytes:
        path, size = folder / entry.get("file", role), entry.get("bytes")
        try:
            data = read_plain(path, size if isinstance(size, int) else 0)
        except FileNotFoundError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}") from None
        if wrong := _misfit(entry, sha256_bytes(data), len(data)):
            raise RunError(f"{path} {wrong}")
        return data


def entry_of(path: Path) -> dict[str, Any]:
    """Return what a manifest says of a file that is called as its role."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def fault(path: Path, entry: Mapping[str, Any]) -> str:
    """Return what is wrong with a file, however large, given what a manifest says of it; nothing if it is right."""
    if not path.is_file():
        return "is missing, though the manifest names it"
    return _misfit(entry, sha256_file(path), path.stat().st_size)


def _misfit(entry: Mapping[str, Any], digest: str, size: int) -> str:
    if digest == entry.get("sha256"):
        return ""
    stated = f"{entry.get('bytes')} bytes of SHA-256 {entry.get('sha256')}"
    return f"is damaged: expected {stated}, found {size} bytes of {digest}"


def _write_hashed(folder: Path, role: str, data: bytes | Iterable[bytes]) -> dict[str, Any]:
    digest, size = hashlib.sha256(data if isinstance(data, bytes) else b""), 0

    def place() -> Path:
        stem, suffix = role.split(".")
        return folder / f"{stem}.{digest.hexdigest()[:12]}.{suffix}"

    if isinstance(data, bytes):
        path, size = place(), len(data)
        if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
    else:
        with replacing(folder / role, place) as temporary, temporary.open("wb") as stream:
            for piece in data:
                digest.update(piece)
                size += stream.write(piece)
    return {"file": place().name, "sha256": digest.hexdigest(), "bytes": size}
