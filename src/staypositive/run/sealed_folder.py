"""Folders on disk that are whole or not there: written atomically, versioned and hashed. No pickle anywhere.

A manifest names every other file with its SHA-256. A save writes the new files beside the old ones (a file's name
holds its hash) and then replaces the manifest, which is the moment the save counts; files no longer named are removed
last. A reader thus always finds one whole state, whenever a save was cut short.

Compatibility: a folder of format N is read by every version of staypositive whose format is N or later.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from staypositive.errors import RunError
from staypositive.files import sha256_bytes, sync_folder, write_atomic, write_pieces
from staypositive.run.checking import MOST_MANIFEST, parsed, read_plain
from staypositive.run.locking import LOCK, locked

Contents = Mapping[str, bytes | Iterable[bytes]]
"""What to keep by role: bytes, or pieces of what is too large to have at once."""
Files = dict[str, dict[str, Any]]
"""What a manifest says of each role's file: `file`, `sha256` and `bytes`."""


@dataclass(frozen=True)
class FolderKind:
    """What one kind of folder holds. `roles` are its files by their names without hashes, `rooms` its subfolders."""

    name: str
    format: int
    roles: tuple[str, ...]
    how_to_make: str
    rooms: tuple[str, ...] = ()

    @property
    def manifest(self) -> str:
        """The file that names all others."""
        return f"{self.name}.json"

    @cached_property
    def _own_names(self) -> re.Pattern[str]:
        parts = (role.split(".") for role in self.roles)
        hashed = "|".join(rf"{stem}\.[0-9a-f]{{12}}\.{suffix}" for stem, suffix in parts)
        begun = "|".join(map(re.escape, (self.manifest, *self.roles)))
        return re.compile(rf"(?:{hashed})|\.(?:{begun}|{hashed})\.[^.]+\.part")

    def owns(self, path: Path) -> bool:
        """Whether a file is of a save, finished or cut short; nobody else's may ever match."""
        if path.is_dir() and not path.is_symlink():
            return path.name in self.rooms
        return path.name == LOCK or self._own_names.fullmatch(path.name) is not None

    # -- writing ---------------------------------------------------------------------------------------------------

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
            format, files = self._manifest(folder)
            if any(files.get(role, {}).get("sha256") != digest for role, digest in (same or {}).items()):
                raise RunError(f"the {self.name} in {folder} was replaced meanwhile, so nothing is kept in it")
            self._write(folder, contents, files, writer, format)

    def _write(self, folder: Path, contents: Contents, others: Files, writer: str, format: int) -> None:
        self.require_writable(folder)
        with locked(folder):
            self._sweep(folder)  # what a save that was cut short has left may be the room that this one needs
            try:
                files = others | {role: _write_hashed(folder, role, data) for role, data in contents.items()}
                manifest = {"format": format, "writer": writer, "files": files}
                write_atomic(folder / self.manifest, to_json(manifest | {"sha256": sha256_bytes(to_json(manifest))}))
                sync_folder(folder)  # the new names are on disk before the old ones go
            except OSError as error:
                self._sweep(folder)
                raise RunError(f"cannot write the {self.name} to {folder}: {error.strerror or error}") from error
            except RunError:
                self._sweep(folder)
                raise
            self._sweep(folder)

    def require_own(self, folder: Path) -> None:
        """Never mix our files into somebody's others."""
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is a file; a {self.name} needs a folder")
        if folder.is_dir() and not (folder / self.manifest).exists():
            left = sorted(path.name for path in folder.iterdir() if not self.owns(path))
            if left:
                raise RunError(
                    f"{folder} holds files that are not a {self.name}'s ({left[0]}, ...); choose another folder"
                )

    def require_writable(self, folder: Path) -> None:
        """Find out, before hours of work, whether something can be kept in a folder."""
        for room in self.rooms:
            require_no_link(folder / room)
        try:
            self.require_own(folder)
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
            named = {entry["file"] for entry in self.files(folder).values()} if self.is_in(folder) else set()
        except (RunError, KeyError):
            return
        for path in folder.iterdir():
            if path.name not in named | {LOCK} and path.is_file() and self.owns(path):
                path.unlink(missing_ok=True)

    # -- reading ---------------------------------------------------------------------------------------------------

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds one."""
        return (folder / self.manifest).exists()

    def load(self, folder: Path, roles: Container[str] | None = None) -> dict[str, bytes]:
        """Read and check all files, or those of some roles, by role; a save that comes amidst is waited for."""
        return self.load_with_files(folder, roles)[0]

    def load_with_files(self, folder: Path, roles: Container[str] | None = None) -> tuple[dict[str, bytes], Files]:
        """Do what `load` does, and return what the manifest said of the files that were read too."""
        while True:
            files = self.files(folder)
            wanted = {role: entry for role, entry in files.items() if roles is None or role in roles}
            try:
                return {role: self._read_checked(folder, role, entry) for role, entry in wanted.items()}, wanted
            except RunError:
                if self.files(folder) == files:  # else a save has just replaced what we were reading
                    raise

    def files(self, folder: Path) -> Files:
        """Return what the manifest says of each role's file."""
        return self._manifest(folder)[1]

    def _manifest(self, folder: Path) -> tuple[int, Files]:
        """Return the format and the files."""
        path = folder / self.manifest
        try:
            manifest = parsed(read_plain(path, MOST_MANIFEST))
            found, files, stated = int(manifest["format"]), dict(manifest["files"]), manifest.pop("sha256", "")
            own = sha256_bytes(to_json(manifest))
        except FileNotFoundError:
            raise RunError(f"there is no {self.name} in {folder} (no {self.manifest}); {self.how_to_make}") from None
        except RunError:
            raise
        except Exception as error:  # JSON of any shape, or none
            raise RunError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        if found > self.format:
            raise RunError(
                f"{folder} has {self.name} format {found}, written by staypositive {manifest.get('writer')}; "
                f"this one reads up to {self.format}. Upgrade staypositive"
            )
        if stated != own:
            raise RunError(f"{path} is damaged: its contents do not have the hash that it states")
        if not set(files) <= set(self.roles) or not all(isinstance(entry, dict) for entry in files.values()):
            raise RunError(f"{path} is damaged: it names files that no {self.name} has")
        return found, files

    def _read_checked(self, folder: Path, role: str, entry: dict[str, Any]) -> bytes:
        name = str(entry.get("file", ""))
        if not name or Path(name).name != name:
            raise RunError(f"{folder / self.manifest} names a file outside the {self.name} for {role}: {name!r}")
        size = entry.get("bytes")
        try:
            data = read_plain(folder / name, size if isinstance(size, int) else 0)
        except FileNotFoundError as error:
            raise RunError(f"{folder / name} cannot be read: {error.strerror}") from None
        if sha256_bytes(data) != entry.get("sha256"):
            raise RunError(
                f"{folder / name} is damaged: expected {entry.get('bytes')} bytes of SHA-256 {entry.get('sha256')}, "
                f"found {len(data)} bytes of {sha256_bytes(data)}"
            )
        return data


def require_no_link(folder: Path) -> None:
    """Refuse a folder that is a link: files that are removed or replaced in it could be anybody's."""
    if folder.is_symlink():
        raise RunError(f"{folder} is a link, and nothing is written to or removed from linked folders; remove it")


def to_json(value: Any) -> bytes:
    """Return a value as our files hold it; `ValueError` where they cannot, as of numbers that are not finite."""
    try:
        return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def tensors_to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return named tensors as a file holds them."""
    from safetensors.torch import save

    data: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return data


def tensors_from_bytes(data: bytes) -> dict[str, Tensor]:
    """Return the tensors that `tensors_to_bytes` wrote; `ValueError` where it did not."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    return tensors


class HashedPieces:
    """Pieces of bytes, hashed and counted as they go by."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces, self.digest, self.size = pieces, hashlib.sha256(), 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.digest.update(piece)
            self.size += len(piece)
            yield piece


def _write_hashed(folder: Path, role: str, data: bytes | Iterable[bytes]) -> dict[str, Any]:
    def place(digest: str) -> Path:
        stem, suffix = role.split(".")
        return folder / f"{stem}.{digest[:12]}.{suffix}"

    if not isinstance(data, bytes):
        pieces = HashedPieces(data)
        path = write_pieces(folder / role, pieces, lambda: place(pieces.digest.hexdigest()))
        return {"file": path.name, "sha256": pieces.digest.hexdigest(), "bytes": pieces.size}
    digest = sha256_bytes(data)
    path = place(digest)
    if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data)
    return {"file": path.name, "sha256": digest, "bytes": len(data)}
