"""Shards of tab-separated text: columns by name or by place, read into cells of one buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import Place
from staypositive.graph.on_disk.chunks import Labels, Piece
from staypositive.graph.readers.columns import Places
from staypositive.graph.readers.lines import decoded, whole_lines
from staypositive.graph.readers.names import looks_like_header
from staypositive.graph.readers.opening import opened
from staypositive.graph.readers.options import TableOptions
from staypositive.graph.readers.text import Layout


class Columns(NamedTuple):
    """The columns of a shard by name, empty where they have none, and which of them are read."""

    names: Sequence[str]
    places: Places

    def require_facts(self, path: Path) -> None:
        """Refuse columns that a stream has no room for."""
        extra = self.places.label if self.places.label is not None else self.places.confidence
        if extra is not None:
            name = self.names[extra] if self.names else extra + 1
            role = "confidence" if self.places.label is None else "label"
            way = (
                f"say --columns {role}= to leave it unread"
                if self.names
                else "say --columns head=1,relation=2,tail=3"
            )
            raise DataError(f"a stream holds facts, all alike; leave the column {name!r} out, or {way}", path)


class TextShard:
    """One file of text; `columns` and `sha256` are known once it is read."""

    def __init__(self, path: Path, options: TableOptions) -> None:
        self.path, self.options = path, options
        self.layout: Layout | None = None
        self.sha256, self.left_out = "", 0
        self._names: Sequence[str] | None = None

    @property
    def columns(self) -> Columns | None:
        """Which columns are read, where that is worth telling."""
        is_told = self.layout is not None and (self._names or self.options.columns)
        return Columns(self.layout.names, self.layout.places) if is_told and self.layout else None

    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield the rows, about so many bytes at once."""
        with opened(self.path) as stream:
            for body, line in whole_lines(stream, self.path, size):
                decoded(body, self.path, line)  # which refuses what is no text
                body = body if body.endswith(b"\n") else body + b"\n"
                if self._names is None:
                    first, _, rest = body.partition(b"\n")
                    self._names = self._header(_cells(first))
                    body, line = (rest, line + 1) if self._names else (body, line)
                is_first = self.layout is None
                if is_first and not self._set_layout(body, line):
                    continue
                piece = self._split(body, line)
                if len(piece):
                    is_read = not is_first or self._names or self.options.header is not None
                    yield piece if is_read else replace(piece, may_be_header=True)
            self.sha256 = stream.sha256()

    def _header(self, cells: Sequence[str]) -> Sequence[str]:
        header = self.options.header
        is_header = self.options.has_names or (looks_like_header(cells) if header is None else header)
        return cells if is_header else ()

    def _set_layout(self, body: bytes, line: int) -> bool:
        """Read the layout off the first row; return whether there is one."""
        behind = body.lstrip(b"\r\n")
        if not behind:
            return False
        row = body.count(b"\n", 0, len(body) - len(behind))
        first = _cells(behind.partition(b"\n")[0])
        try:
            self.layout = Layout.of(self._names or (), first, self.options.columns)
        except InputError as error:
            raise DataError(str(error), self.path, 1 if self._names else line + row) from None
        if self._names or self.layout.places.label is None:
            Columns(self.layout.names, self.layout.places).require_facts(self.path)
        else:
            self._refuse(body, line, row, 3)
        return True

    def _split(self, body: bytes, line: int) -> Piece:
        from staypositive.graph.on_disk import kernels

        assert self.layout is not None
        roles = np.full(self.layout.width, -1, dtype=np.int64)
        roles[list(self.layout.places.triple)] = range(3)
        data, lines = np.frombuffer(body, dtype=np.uint8), body.count(b"\n")
        starts, lengths = np.empty((2, lines, 3), dtype=np.int64)
        count, bad = kernels.split_lines(data, roles, starts, lengths)
        if bad >= 0:
            self._refuse(body, line, bad, self.layout.width)
        head, relation, tail = (Labels(data, starts[:count, i], lengths[:count, i]) for i in range(3))
        return Piece(Place(self.path), line, (head, relation, tail))

    def _refuse(self, body: bytes, line: int, bad: int, width: int) -> None:
        found = body.split(b"\n", bad + 1)[bad].count(b"\t") + 1
        said = f"expected {width} tab-separated columns, found {found}"
        if found > width == 3:
            said += "; labels and confidences are not streamed: say --columns head=1,relation=2,tail=3"
        raise DataError(said, self.path, line + bad)


def _cells(line: bytes) -> list[str]:
    return line.decode("utf-8", "replace").rstrip("\r").split("\t")
