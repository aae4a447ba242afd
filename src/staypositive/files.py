"""Single files: written whole or not at all and never through links, read when plain, hashed, locked; strict JSON."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from staypositive.errors import RunError

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

CACHE_VARIABLE = "STAYPOSITIVE_CACHE"
LOCK = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # by file systems without locks
_held: dict[Path, int] = {}
"""The folders that this process has locked, and by which of its threads."""


def cache_folder() -> Path:
    import pooch

    return Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("staypositive"))


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def to_json(value: Any) -> bytes:
    """Return a value as our files hold it; `ValueError` where they cannot, as of numbers that are not finite."""
    try:
        return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parsed(data: bytes) -> Any:
    """Read JSON as strictly as it is written: finite numbers and whole characters only, else a `ValueError`."""
    try:
        value = json.loads(data, parse_float=_finite, parse_constant=_finite)
        if b"\\ud" in data.lower():  # half of a surrogate pair can only be spelt so
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{number} is not a finite number")
    return float(number)


def read_plain(path: Path, most: int) -> bytes:
    """Read a file, or what a link leads to, that is no pipe and no device, and not larger than it should be."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RunError(f"{path} is not a plain file")
        if found.st_size > most:
            raise RunError(f"{path} is damaged: it has {found.st_size} bytes, and {most} are the most")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a whole file or nothing. A link of that name is replaced, and what it leads to stays as it is."""
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return Path(path)


@contextmanager
def replacing(path: Path, final: Callable[[], Path] | None = None) -> Iterator[Path]:
    """Give an empty temporary neighbour to write to, which takes the final name once the block has ended well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # mkstemp gives 0600; a result is as readable as any file
        temporary.replace(path if final is None else final())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_plain(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file to change in place; a link, a pipe, a device or a file with a second name is an `OSError`."""
    no_follow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader would block
    if Path(path).is_symlink():
        raise OSError(errno.ELOOP, "is a link, and nothing is written through links; remove it", os.fspath(path))
    handle = os.open(path, flags | no_follow | getattr(os, "O_CLOEXEC", 0), 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a plain file with one name; remove it", os.fspath(path))
    return handle


def require_no_link(folder: Path) -> None:
    """Refuse a folder that is a link: files that are removed or replaced in it could be anybody's."""
    if folder.is_symlink():
        raise RunError(f"{folder} is a link, and nothing is written to or removed from linked folders; remove it")


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the names in a folder are on disk, where the system can say so."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that has nothing to say of folders
                raise
        finally:
            os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder that exists; within, the same thread may ask for it again.

    The lock is the system's, on a file `.lock` that names its holder, and ends with its holder, however that dies.
    One left behind by a process that was killed is taken over.
    """
    key, me = folder.resolve(), threading.get_ident()
    if _held.get(key) == me:
        yield
        return
    if key in _held:
        raise RunError(f"{folder} is being written to by another thread of this process; wait for it")
    handle = _take_lock(folder)
    _held[key] = me
    try:
        yield
    finally:
        del _held[key]
        if handle is not None:
            try:
                (folder / LOCK).unlink(missing_ok=True)  # while it is ours: whoever opened it meanwhile looks again
            finally:
                os.close(handle)


def _take_lock(folder: Path) -> int | None:
    path = folder / LOCK
    while fcntl is not None:
        try:
            handle = open_plain(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            of = path if path.exists() or path.is_symlink() else folder
            raise RunError(f"cannot write to {of}: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(handle, 32).decode("ascii", "replace").strip()
            os.close(handle)
            if error.errno in _UNSUPPORTED:
                return None
            raise RunError(
                f"{folder} is being written to by another process{f' (pid {holder})' if holder else ''}; "
                "wait until it is done, or choose another folder"
            ) from None
        if path.exists() and os.path.samestat(os.fstat(handle), path.lstat()):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its holder removed it between our two calls
    return None
