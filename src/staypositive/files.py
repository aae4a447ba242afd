"""Writing files so that a reader never sees half of one, and naming what was read by its hash."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal.

    >>> sha256_bytes(b"")[:12]
    'e3b0c44298fc'
    """
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, read in pieces so that size does not matter."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def open_plain(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file to write to; a link, a pipe or a device in its place is an `OSError`, and nothing is written.

    A folder that somebody else made may hold a link under a name that is written to. `write_atomic` replaces such a
    link; what is changed in place is opened here. A second name of the same file (a hard link) is refused too.
    """
    no_follow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader would block
    if Path(path).is_symlink():
        raise OSError(errno.ELOOP, "is a link, and nothing is written through links; remove it", os.fspath(path))
    handle = os.open(path, flags | no_follow | getattr(os, "O_CLOEXEC", 0), 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a plain file with one name; remove it", os.fspath(path))
    return handle


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a whole file or nothing: a temporary neighbour, flushed to disk, takes the final name at the end.

    A link of that name is replaced, and what it leads to stays as it is.
    """
    path = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    return write_pieces(path, [content], lambda: path)


def write_pieces(path: Path, pieces: Iterable[bytes], final: Callable[[], Path]) -> Path:
    """Write a whole file or nothing, piece by piece, beside a path; `final` is asked for its name at the end."""
    with replacing(path, final) as temporary, temporary.open("wb") as stream:
        stream.writelines(pieces)
    return final()


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
        temporary.chmod(0o666 & ~_umask())  # mkstemp gives 0600; a result is as readable as any file
        temporary.replace(path if final is None else final())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the names in a folder are on disk, where the system can say so."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to say of folders
            raise
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
