"""One writer a folder at a time, by a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staypositive.errors import RunError
from staypositive.files import open_plain

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""What file systems answer that have no locks: there, nobody is kept out."""
_held: dict[Path, int] = {}
"""The folders that this process has locked, and by which of its threads."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder that exists; within, the same thread may ask for it again.

    The lock is on a file `.lock` that names its holder. The file alone means nothing: one left behind by a process
    that was killed is taken over.
    """
    key, me = folder.resolve(), threading.get_ident()
    if _held.get(key) == me:
        yield
        return
    if key in _held:
        raise RunError(f"{folder} is being written to by another thread of this process; wait for it")
    handle = _take(folder)
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


def _take(folder: Path) -> int | None:
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
