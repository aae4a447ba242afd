"""Opening a file for reading in pieces: unpacked by what it holds, hashed on the way, its faults named."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from staypositive.errors import DataError, InputError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PACKED = (".gz", ".zst")
"""Endings of packed files; what is packed is seen by the first bytes, whatever the name."""

MOST_UNPACKED = 2**28
MOST_TIMES = 200
"""A packed file may unpack to the first many bytes, and beyond to so many times its own size."""


def require_modest(path: Path, packed: int, unpacked: int) -> None:
    """Refuse a file that unpacks to far more than triples ever would: a few bytes could fill the memory."""
    if unpacked > max(MOST_UNPACKED, MOST_TIMES * packed):
        raise DataError(
            f"it unpacks to more than {MOST_TIMES} times its {packed:,} bytes; if that is meant, unpack it first",
            path,
        )


def plain_suffix(path: Path) -> str:
    """Return how a file's name ends, packing left out: `.nt` for `x.nt.gz`.

    >>> plain_suffix(Path("facts.CSV.gz"))
    '.csv'
    """
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


class Opened:
    """A stream of a file's bytes, unpacked; `sha256` is of the file as it is on disk."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        self.path, self.failure = path, None
        self._hashed = _Hashed(raw)
        buffered = io.BufferedReader(self._hashed, 1 << 20)
        start = buffered.peek(4)[:4]
        self.packing = "gzip" if start.startswith(GZIP) else "zstd" if start == ZSTD else ""
        self._buffered, self._stream = buffered, self._unpacked(buffered)
        self._size, self._given = path.stat().st_size, 0

    failure: DataError | None
    """What went wrong while reading, for callers whose parser hides it."""

    def read(self, size: int) -> bytes:
        """Return up to so many bytes, empty at the end."""
        try:
            data = bytes(self._stream.read(size))
            self._given += len(data)
            if self.packing:
                require_modest(self.path, self._size, self._given)
            return data
        except DataError as error:
            self.failure = error
        except (OSError, EOFError, zlib.error) as error:
            said = f"the {self.packing} data is damaged: {error}" if self.packing else f"cannot be read: {error}"
            self.failure = DataError(said, self.path)
        except Exception as error:
            if not type(error).__name__.startswith("Zstd"):
                raise
            self.failure = DataError(f"the {self.packing} data is damaged: {error}", self.path)
        raise self.failure

    def sha256(self) -> str:
        """Return the hash of the whole file, once it was read."""
        while self._buffered.read(1 << 20):
            pass  # padding behind what was unpacked
        return self._hashed.digest.hexdigest()

    def _unpacked(self, stream: Any) -> Any:
        if self.packing == "gzip":
            return gzip.GzipFile(fileobj=stream)
        if self.packing == "zstd":
            try:
                import zstandard
            except ModuleNotFoundError:
                raise InputError(f"{self.path}: zstd needs zstandard: pip install 'staypositive[zstd]'") from None
            return _Zstd(stream, zstandard.ZstdDecompressor())
        return stream


class _Zstd:
    """The frames of a zstd file, one after another; unlike the library's own stream it minds an early end."""

    def __init__(self, stream: Any, library: Any) -> None:
        self.stream, self.library = stream, library
        self.frame: Any = None
        self.ready = b""

    def read(self, size: int = -1) -> bytes:
        parts, length = [self.ready], len(self.ready)
        while size < 0 or length < size:
            data = self.stream.read(1 << 11)  # of which one call makes 64 MiB at most
            if not data:
                if self.frame is not None:
                    raise EOFError("it ends before its last frame does")
                break
            while data:
                self.frame = self.frame or self.library.decompressobj()
                parts.append(self.frame.decompress(data))
                length += len(parts[-1])
                data = self.frame.unused_data if self.frame.eof else b""
                self.frame = None if self.frame.eof else self.frame
        whole = b"".join(parts)
        end = len(whole) if size < 0 else size
        self.ready = whole[end:]
        return whole[:end]


class _Hashed(io.RawIOBase):
    """Bytes that are hashed as they pass."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.digest = raw, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)
        data = self.raw.read(len(room))
        room[: len(data)] = data
        self.digest.update(data)
        return len(data)


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a file for reading; one that cannot be read is a `DataError`."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    with raw:
        yield Opened(path, raw)
