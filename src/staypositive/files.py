"""Writing files so that a reader never sees half of one, and naming what was read by its hash."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
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


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a whole file or nothing: a temporary neighbour, flushed to disk, takes the final name at the end."""
    path = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    return write_pieces(path, [content], lambda: path)


def write_pieces(path: Path, pieces: Iterable[bytes], final: Callable[[], Path]) -> Path:
    """Write a whole file or nothing, piece by piece, beside a path; `final` is asked for its name at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # mkstemp gives 0600; a result is as readable as any file
        return Path(temporary).replace(final())
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
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
