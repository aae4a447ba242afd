"""Text in pieces of whole lines, which must be UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from staypositive.errors import DataError
from staypositive.graph.readers.opening import Opened

MOST_LINE = 1 << 26
"""Bytes of one line."""
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32", codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip


def whole_lines(stream: Opened, path: Path, size: int, returns: bool = True) -> Iterator[tuple[bytes, int]]:
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
                raise DataError(f"a line of more than {MOST_LINE:,} bytes; is this a file of triples?", path, line)
            continue
        piece, rest = (rest + body + end, tail) if data else (rest, b"")
        if start:
            piece = _without_mark(piece, path)
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
        said = (
            "a NUL byte, as in UTF-16 text without its mark; save the file as UTF-8: iconv -f UTF-16LE -t UTF-8 FILE"
        )
        raise DataError(f"{said} > NEW", path, line + data.count(b"\n", 0, nul))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        said = f"invalid UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        raise DataError(said, path, line) from None
