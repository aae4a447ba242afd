"""Triples as text: tab-separated, or CSV when the name ends in .csv; read in pieces, so that length does not matter.

Labels are kept to the letter: "nan", "NA" and spaces survive. A file that is not what it should be gives one
`DataError` that names the file and the line.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.labelled import Encoder, LabelledTriples, Place
from staypositive.graph.readers.columns import (
    ALL_FAMILIES,
    SIGNS,
    Places,
    TableOptions,
    find_columns,
    find_triple,
    header_note,
    listed,
)
from staypositive.graph.readers.opening import Opened, decoded, opened, plain_suffix, whole_lines
from staypositive.graph.readers.tables import Piece, add_rows, finish_rows

PIECE = 1 << 22  # bytes read at once
CSV_ROWS = 1 << 15  # rows of a CSV file taken at once
_TOO_MANY = "; say which to read: --columns head=1,relation=2,tail=3, or by the names of a header"
_UNLABELLED = "; if it is no label of truth, say --columns label="
_HEADER_OR_COLUMNS = (
    "; say --header if the first line names columns, or --columns head=1,relation=2,tail=3 to leave it unread"
)
_RETURNS = re.compile(r"\r+(?=\n|\Z)")


@dataclass(frozen=True)
class Layout:
    """How wide the rows of a file are, and what their columns are; `names` is empty without a header."""

    width: int
    places: Places
    names: Sequence[str] = ()

    @classmethod
    def of(cls, names: Sequence[str], first: Sequence[str], options: TableOptions, path: Path, line: int) -> Layout:
        """Return the layout that a header and the first row have; `line` is that of an error."""
        width = len(first)
        try:
            if options.columns or find_triple(names, ALL_FAMILIES):
                return cls._named(names, first, options)
            if len(names) == width > 2:
                places = find_columns(names)
                if len(places.by_role) == width:
                    return cls(width, places, names)
        except InputError as error:
            raise DataError(str(error), path, line) from None
        if width > 4 and names:
            raise DataError(f"none of {listed(names)} is called head, relation or tail{_TOO_MANY}", path, line)
        fitted = [*names, *[""] * width][:width] if names else ()
        return cls(4, Places((0, 1, 2), 3), fitted) if width == 4 else cls(3, Places((0, 1, 2)), fitted)

    @classmethod
    def _named(cls, names: Sequence[str], first: Sequence[str], options: TableOptions) -> Layout:
        width = len(first)
        header = [*names, ""] if len(names) == 3 and width == 4 else list(names) or [""] * width
        while len(header) > width and not header[-1].strip():
            header.pop()
        places = find_columns(header, options.columns)
        is_free = not options.columns and places.label is None and 3 not in places.by_role.values()
        if len(header) == width == 4 and is_free and first[3] in SIGNS:
            places = places._replace(label=3)  # a fourth column of 1 and -1, whatever it is called
        return cls(len(header), places, header)


class _Reading:
    """Rows as they come: the first may be a header, and the next says how wide all are."""

    def __init__(self, path: Path, options: TableOptions) -> None:
        self.path, self.options, self.encoder = path, options, Encoder(Place(path))
        self.names: Sequence[str] | None = None
        self.layout: Layout | None = None
        self.first_line = 1

    def take(self, columns: Sequence[Sequence[str]], lines: Sequence[int]) -> None:
        if self.names is None:
            first = [cells[0] for cells in columns]
            self.names = first if self.options.is_header(first) else ()
            self.first_line = lines[0]
            if self.names:
                columns, lines = [cells[1:] for cells in columns], lines[1:]
        if not lines:
            return
        if self.layout is None:
            first = [cells[0] for cells in columns]
            self.layout = Layout.of(self.names, first, self.options, self.path, self.first_line)
        if len(columns) != self.layout.width:
            self._refuse(columns, lines[0], self.layout.width)
        places = self.layout.places
        triple = [columns[place] for place in places.triple]
        extra = [None if place is None else columns[place] for place in places[1:]]
        where = "as a label" if places.label is None else f"in column {places.label + 1}"
        hint = _UNLABELLED if self.names else _HEADER_OR_COLUMNS
        add_rows(self.encoder, triple, extra, lines, self.options, where, hint)

    def finish(self) -> LabelledTriples:
        layout = self.layout or Layout(3, Places((0, 1, 2)))
        names = layout.names if self.names or self.options.columns else ()
        found = finish_rows(self.encoder, self.path.name, sha256_file(self.path), names, layout.places, self.options)
        if self.options.header is None and not self.names:
            found = dataclasses.replace(found, notes=(*found.notes, *header_note(found.ids, found.triple(0))))
        return found

    def _refuse(self, columns: Sequence[Sequence[str]], line: int, width: int) -> NoReturn:
        """Name a row that is too wide or too narrow."""
        said = f"expected {width} columns as in the first row, found {len(columns)}"
        if len(columns) not in (3, 4, width):
            kind = "comma" if plain_suffix(self.path) == ".csv" else "tab"
            said = f"expected {'3 or 4' if width < 5 else width} {kind}-separated columns, found {len(columns)}"
            said += _TOO_MANY if len(columns) > 4 >= width else ""
        if any("\r" in cells[0] for cells in columns):
            said += "; a carriage return stands in this line: if it ends lines, replace it by a line feed"
        raise DataError(said, self.path, line)


def read_text(path: Path, options: TableOptions, *_: object) -> LabelledTriples:
    reading = _Reading(path, options)
    with opened(path) as stream:
        for columns, lines in (_csv_pieces if plain_suffix(path) == ".csv" else _tab_pieces)(stream, path):
            reading.take(columns, lines)
    return reading.finish()


def _tab_pieces(stream: Opened, path: Path) -> Iterator[Piece]:
    """Split at tabs; a line may end in CRLF, and blank lines are passed over."""
    for data, start in whole_lines(stream, PIECE):
        # not splitlines(): a label may hold U+2028 and its kin
        text = decoded(data, path, start).replace("\r\n", "\n")
        text = (_RETURNS.sub("", text) if "\r" in text else text).removesuffix("\n")
        columns = _even_columns(text)
        if columns:
            yield columns, range(start, start + len(columns[0]))
        else:
            yield from _even(
                (line.split("\t"), number) for number, line in enumerate(text.split("\n"), start) if line
            )


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
    texts = (decoded(data, path, line) for data, line in whole_lines(stream, PIECE, returns=False))
    reader = csv.reader((line for text in texts for line in io.StringIO(text, newline="")), strict=True)
    records = _records(reader, path)
    while found := list(islice(records, CSV_ROWS)):
        yield from _even(found)


def _even(records: Iterable[tuple[list[str], int]]) -> Iterator[Piece]:
    """Yield neighbouring rows of one width as columns."""
    for _, alike in groupby(records, key=lambda record: len(record[0])):
        rows, lines = zip(*alike, strict=True)
        yield list(zip(*rows, strict=True)), lines


def _records(reader: Iterator[list[str]], path: Path) -> Iterator[tuple[list[str], int]]:
    line = 1
    try:
        for row in reader:
            if row:
                yield row, line
            line = reader.line_num + 1  # type: ignore[attr-defined]
    except csv.Error as error:
        raise DataError(f"not valid CSV: {error}", path, line) from None
