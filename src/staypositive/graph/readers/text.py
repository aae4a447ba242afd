"""Triples as text: tab-separated, or CSV when the name ends in .csv; read in pieces, so that length does not matter.

Labels are kept to the letter: "nan", "NA" and spaces survive. A file that is not what it should be gives one
`DataError` that names the file and the line.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from staypositive.errors import DataError
from staypositive.graph.labelled import ROLES, Encoder, LabelledTriples, Place, Source
from staypositive.graph.readers.names import (
    CONFIDENCE_NAMES,
    LABEL_NAMES,
    find_column,
    folded,
    looks_like_header,
    parse_signs,
    parse_weights,
)
from staypositive.graph.readers.opening import Opened, opened, plain_suffix

log = logging.getLogger(__name__)

PIECE = 1 << 22
"""Bytes read at once."""
MOST_LINE = 1 << 26
"""Bytes of one line."""
CSV_ROWS = 1 << 15
"""Rows of a CSV file taken at once."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a file, as columns where all rows are as wide as the first, and the line of each row."""

    rows: Sequence[Sequence[str]]
    columns: Sequence[Sequence[str]]
    lines: Sequence[int]

    @property
    def first(self) -> Sequence[str]:
        """The cells of the first row."""
        return self.rows[0] if self.rows else [column[0] for column in self.columns]

    def rest(self) -> Piece:
        """Return the piece without its first row."""
        return Piece(self.rows[1:], [column[1:] for column in self.columns], self.lines[1:])


@dataclass(frozen=True)
class Layout:
    """What the columns of a file are: head, relation, tail, and then a label, a confidence, or both."""

    width: int
    label: int | None = None
    confidence: int | None = None

    @property
    def label_place(self) -> str:
        """Which column the label is, in words."""
        return "fourth" if self.label == 3 else "fifth"

    @classmethod
    def of(cls, header: Sequence[str], first: Sequence[str]) -> Layout:
        """Read it off the column names; without any, a fourth column holds labels."""
        extra = header[3 : len(first)]
        if extra and all(folded(name) in LABEL_NAMES | CONFIDENCE_NAMES for name in extra):
            places = [find_column(extra, names) for names in (LABEL_NAMES, CONFIDENCE_NAMES)]
            label, confidence = (None if place is None else place + 3 for place in places)
            return cls(3 + len(extra), label, confidence)
        return cls(4, label=3) if len(first) == 4 else cls(3)


def read_text(path: Path, header: bool | None) -> LabelledTriples:
    """Read one file of triples as text, packed or not."""
    place = Place(path)
    encoder, layout = Encoder(place), None
    names: Sequence[str] | None = None
    with opened(path) as stream:
        for piece in _csv_pieces(stream, path) if is_csv(path) else _tab_pieces(stream, path):
            if names is None:
                names = piece.first if (looks_like_header(piece.first) if header is None else header) else ()
                if names:
                    log.info("%s: the first line is taken for column names", path)
                    piece = piece.rest()
            if not piece.lines:
                continue
            layout = layout or Layout.of(names, piece.first)
            _take(piece, layout, encoder, path)
        source = Source(path.name, stream.sha256(), encoder.rows)
    if not encoder.rows:
        raise DataError("no triples here; expected one line `head<TAB>relation<TAB>tail` each", path)
    return encoder.finish(source)


def is_csv(path: Path) -> bool:
    """Return whether a file's name says that commas part its columns."""
    return plain_suffix(path) == ".csv"


def _take(piece: Piece, layout: Layout, encoder: Encoder, path: Path) -> None:
    columns, lines = piece.columns, piece.lines
    if piece.rows:
        if any(len(row) != layout.width for row in piece.rows):
            _refuse(piece.rows, lines, layout, path)
        columns = list(zip(*piece.rows, strict=True))
    if len(columns) != layout.width:
        _refuse(list(zip(*columns, strict=True)), lines, layout, path)
    heads, relations, tails = columns[:3]
    signs = weights = None
    try:
        if layout.label is not None:
            signs = parse_signs(columns[layout.label], lines, encoder.place, layout.label_place)
        if layout.confidence is not None:
            weights = parse_weights(columns[layout.confidence], lines, encoder.place)
    except DataError as error:
        _refuse_blank(columns, lines, path, before=error.line)
        raise
    encoder.add((heads, relations, tails), lines, signs, weights)


def _refuse(rows: Sequence[Sequence[str]], lines: Sequence[int], layout: Layout, path: Path) -> NoReturn:
    """Name the first row that is wrong in some way; that one is too wide or too narrow is known."""
    for row, line in zip(rows, lines, strict=True):
        if len(row) == layout.width:
            _check_cells(row, line, layout, path)
        elif len(row) not in (3, 4, layout.width):
            kind = "comma" if is_csv(path) else "tab"
            raise DataError(f"expected 3 or 4 {kind}-separated columns, found {len(row)}", path, line)
        else:
            raise DataError(f"expected {layout.width} columns as in the first row, found {len(row)}", path, line)
    raise AssertionError("unreachable: some row has another width")


def _check_cells(row: Sequence[str], line: int, layout: Layout, path: Path) -> None:
    _refuse_blank([[cell] for cell in row], [line], path)
    if layout.label is not None:
        parse_signs([row[layout.label]], [line], Place(path), layout.label_place)
    if layout.confidence is not None:
        parse_weights([row[layout.confidence]], [line], Place(path))


def _refuse_blank(
    columns: Sequence[Sequence[str]], lines: Sequence[int], path: Path, before: int | None = None
) -> None:
    for line, *labels in zip(lines, *columns[:3], strict=True):
        if before is not None and line > before:
            return
        for role, label in zip(ROLES, labels, strict=True):
            if not label or label.isspace():
                raise DataError(f"the {role} is empty", path, line)


def _whole_lines(stream: Opened, path: Path) -> Iterator[tuple[str, int]]:
    """Yield text that ends where a line ends, and the number of its first line."""
    line, rest, start = 1, b"", True
    while True:
        data = stream.read(PIECE)
        body, end, tail = data.rpartition(b"\n")
        if data and not end:
            rest += data
            if len(rest) > MOST_LINE:
                raise DataError(f"a line of more than {MOST_LINE:,} bytes; is this a file of triples?", path, line)
            continue
        piece, rest = (rest + body + end, tail) if data else (rest, b"")
        text = _decode(piece.removeprefix(codecs.BOM_UTF8) if start else piece, path, line)
        if text:
            yield text, line
        line, start = line + piece.count(b"\n"), False
        if not data:
            return


def _decode(data: bytes, path: Path, line: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        said = f"invalid UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        raise DataError(said, path, line) from None


def _tab_pieces(stream: Opened, path: Path) -> Iterator[Piece]:
    """Split at tabs; a line may end in CRLF, and blank lines are passed over."""
    for text, start in _whole_lines(stream, path):
        text = text.replace("\r\n", "\n").removesuffix("\n")  # not splitlines(): a label may hold U+2028 and its kin
        columns = _even_columns(text)
        if columns:
            yield Piece((), columns, range(start, start + len(columns[0])))
            continue
        kept = [(number, line) for number, line in enumerate(text.split("\n"), start) if line]
        if kept:
            numbers = [number for number, _ in kept]
            yield Piece([line.split("\t") for _, line in kept], (), numbers)


def _even_columns(body: str) -> list[Sequence[str]]:
    """Split tab-separated text whose lines all have as many tabs, at once; empty where it is not so plain."""
    width = body.partition("\n")[0].count("\t") + 1
    data = np.frombuffer(f"{body}\n".encode(), dtype=np.uint8)
    marks = data[(data == ord("\t")) | (data == ord("\n"))]
    pattern = np.array([ord("\t")] * (width - 1) + [ord("\n")], dtype=np.uint8)
    if not body or width < 2 or len(marks) % width or (marks.reshape(-1, width) != pattern).any():
        return []
    cells = body.replace("\n", "\t").split("\t")
    return [cells[column::width] for column in range(width)]


def _csv_pieces(stream: Opened, path: Path) -> Iterator[Piece]:
    """Take the records of a CSV file; a quoted cell may span lines, and a record is named by its first."""
    reader = csv.reader(
        (line for text, _ in _whole_lines(stream, path) for line in io.StringIO(text, newline="")), strict=True
    )
    records = _records(reader, path)
    while found := list(islice(records, CSV_ROWS)):
        yield Piece([row for row, _ in found], (), [line for _, line in found])


def _records(reader: Iterator[list[str]], path: Path) -> Iterator[tuple[list[str], int]]:
    line = 1
    try:
        for row in reader:
            if row:
                yield row, line
            line = reader.line_num + 1  # type: ignore[attr-defined]
    except csv.Error as error:
        raise DataError(f"not valid CSV: {error}", path, line) from None
