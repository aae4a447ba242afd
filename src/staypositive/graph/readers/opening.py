"""Files as bytes: unpacked by what they hold, cut into lines of UTF-8, their faults named."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, import_optional

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PACKED = (".gz", ".zst")  # endings of packed files; what is packed is seen by the first bytes, whatever the name

MOST_UNPACKED, MOST_TIMES = 2**28, 200
"""A packed file may unpack to `MOST_UNPACKED` bytes, and beyond to `MOST_TIMES` times its own size."""
MOST_LINE = 1 << 26  # bytes of one line
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32", codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip


def require_modest(path: Path, packed: int, unpacked: int) -> None:
    """Refuse a file that unpacks to far more than triples ever would: a few bytes could fill the memory."""
    if unpacked > max(MOST_UNPACKED, MOST_TIMES * packed):
        said = f"it unpacks to more than {MOST_TIMES} times its {packed:,} bytes; if that is meant, unpack it first"
        raise DataError(said, path)


def plain_name(path: Path) -> str:
    """Return a file's name in lower case without the ending of its packing.

    >>> plain_name(Path("facts.CSV.gz"))
    'facts.csv'
    """
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return name


def plain_suffix(path: Path) -> str:
    return Path(plain_name(path)).suffix


class Opened:
    """A stream of a file's bytes, unpacked."""

    failure: DataError | None = None
    """What went wrong while reading, for callers whose parser hides it."""

    def __init__(self, path: Path, raw: BufferedReader) -> None:
        self.path, self.packing = path, ""
        self._stream: Any = raw
        start = raw.peek(4)[:4]
        if start.startswith(GZIP):
            self.packing, self._stream = "gzip", gzip.GzipFile(fileobj=raw)
        elif start == ZSTD:
            zstandard = import_optional("zstandard", f"{path}: zstd", "zstd")
            self.packing, self._stream = "zstd", _Zstd(raw, zstandard.ZstdDecompressor())
        self._size, self._given = path.stat().st_size, 0

    def read(self, size: int) -> bytes:
        try:
            data = bytes(self._stream.read(size))
            self._given += len(data)
            if self.packing:
                require_modest(self.path, self._size, self._given)
            return data
        except DataError as error:
            self.failure = error
        except Exception as error:
            if not isinstance(error, OSError | EOFError | zlib.error) and not type(error).__name__.startswith("Zstd"):
                raise
            said = f"the {self.packing} data is damaged: {error}" if self.packing else f"cannot be read: {error}"
            self.failure = DataError(said, self.path)
        raise self.failure


class _Zstd:
    """The frames of a zstd file, one after another; unlike the library's own stream it minds an early end."""

    def __init__(self, stream: Any, library: Any) -> None:
        self.stream, self.library = stream, library
        self.frame: Any = None
        self.ready = b""

    def read(self, size: int) -> bytes:
        parts, length = [self.ready], len(self.ready)
        while length < size:
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
        self.ready = whole[size:]
        return whole[:size]


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    with raw:
        yield Opened(path, raw)


def whole_lines(stream: Opened, size: int, returns: bool = True) -> Iterator[tuple[bytes, int]]:
    """Yield bytes that end where a line ends, and the number of their first line.

    `size` bytes are read at once. A file without any line feed has lines that end in carriage returns, as on old
    Macs, unless `returns` is False.
    """
    line, rest, start = 1, b"", True
    while True:
        data = stream.read(size)
        body, end, tail = data.rpartition(b"\n")
        if data and not end:
            rest += data
            if len(rest) > MOST_LINE:
                raise DataError(
                    f"a line of more than {MOST_LINE:,} bytes; is this a file of triples?", stream.path, line
                )
            continue
        piece, rest = (rest + body + end, tail) if data else (rest, b"")
        if start:
            piece = _without_mark(piece, stream.path)
            if returns and not data:
                piece = piece.rstrip(b"\r").replace(b"\r", b"\n")
        if piece:
            yield piece, line
        line, start = line + piece.count(b"\n"), False
        if not data:
            return


def _without_mark(piece: bytes, path: Path) -> bytes:
    """Return the start of a file without the mark of UTF-8; that of another encoding is an error."""
    for mark, name in _MARKS.items():
        if piece.startswith(mark):
            command = f"iconv -f {name} -t UTF-8 FILE > NEW"
            raise DataError(f"{name} text, by its byte-order mark; save the file as UTF-8: {command}", path, 1)
    return piece.removeprefix(codecs.BOM_UTF8)


def decoded(data: bytes, path: Path, line: int) -> str:
    """Return a piece as text, `line` being the number of its first line."""
    nul = data.find(b"\0")
    if nul >= 0:
        said = "a NUL byte, as in UTF-16 text without its mark; save the file as UTF-8: "
        raise DataError(f"{said}iconv -f UTF-16LE -t UTF-8 FILE > NEW", path, line + data.count(b"\n", 0, nul))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        said = f"invalid UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        raise DataError(said, path, line) from None
