"""Triples as text: tab-separated, or CSV when the name ends in .csv; read in pieces, so that length does not matter.

Labels are kept to the letter: "nan", "NA" and spaces survive. A file that is not what it should be gives one
`DataError` that names the file and the line.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import ROLES, SKIP_HINT, Encoder, LabelledTriples, Place, Source
from staypositive.graph.readers.columns import Places, describe, find_columns, header_note, listed
from staypositive.graph.readers.lines import decoded, whole_lines
from staypositive.graph.readers.names import (
    ALL_FAMILIES,
    SIGNS,
    find_triple,
    looks_like_header,
    parse_signs,
    parse_weights,
)
from staypositive.graph.readers.opening import Opened, opened, plain_suffix
from staypositive.graph.readers.options import ColumnNames, TableOptions, selected

PIECE = 1 << 22
"""Bytes read at once."""
CSV_ROWS = 1 << 15
"""Rows of a CSV file taken at once."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_TOO_MANY = "; say which to read: --columns head=1,relation=2,tail=3, or by the names of a header"
_RETURNS = re.compile(r"\r+(?=\n|\Z)")


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
    """How wide the rows of a file are, and what their columns are; `names` is empty without a header."""

    width: int
    places: Places
    names: Sequence[str] = ()

    @property
    def label_place(self) -> str:
        """Which column the label is, in words."""
        place = self.places.label or 0
        return f"{_ORDINALS[place]} column" if place < len(_ORDINALS) else f"column {place + 1}"

    @classmethod
    def of(cls, names: Sequence[str], first: Sequence[str], wanted: ColumnNames) -> Layout:
        """Read it off the column names and the first row; without names, a fourth column holds labels."""
        if wanted or find_triple(names, ALL_FAMILIES):
            return cls._named(names, first, wanted)
        width = len(first)
        if len(names) == width > 2:
            places = find_columns(names)
            if len(places.by_role) == width:
                return cls(width, places, names)
        if width > 4 and names:
            raise InputError(f"none of {listed(names)} is called head, relation or tail{_TOO_MANY}")
        fitted = [*names, *[""] * width][:width] if names else ()
        return cls(4, Places((0, 1, 2), 3), fitted) if width == 4 else cls(3, Places((0, 1, 2)), fitted)

    @classmethod
    def _named(cls, names: Sequence[str], first: Sequence[str], wanted: ColumnNames) -> Layout:
        width = len(first)
        header = [*names, ""] if len(names) == 3 and width == 4 else list(names) or [""] * width
        while len(header) > width and not header[-1].strip():
            header.pop()
        places = find_columns(header, wanted)
        is_free = not wanted and places.label is None and 3 not in places.by_role.values()
        if (
            len(header) == width == 4 and is_free and first[3] in SIGNS
        ):  # a fourth column of 1 and -1, whatever it is called
            places = places._replace(label=3)
        return cls(len(header), places, header)


class _Reading:
    """Rows as they come: the first may be a header, and the next says how wide all are."""

    def __init__(self, path: Path, options: TableOptions) -> None:
        self.path, self.options, self.encoder = path, options, Encoder(Place(path))
        self.names: Sequence[str] | None = None
        self.layout: Layout | None = None
        self.first_line = 1

    def take(self, piece: Piece) -> None:
        """Take some rows."""
        if self.names is None:
            self.names = piece.first if self._is_header(piece.first) else ()
            self.first_line = piece.lines[0]
            piece = piece.rest() if self.names else piece
        if not piece.lines:
            return
        if self.layout is None:
            try:
                self.layout = Layout.of(self.names, piece.first, self.options.columns)
            except InputError as error:
                raise DataError(str(error), self.path, self.first_line) from None
        self._add(self._columns(piece, self.layout), piece.lines, self.layout)

    def finish(self, sha256: str) -> LabelledTriples:
        """Return all rows, with a note of how they were read."""
        encoder, layout = self.encoder, self.layout
        notes = self.options.note(encoder.left_out)
        if not encoder.rows or layout is None:
            why = f" ({notes[0]})" if notes else "; expected one line `head<TAB>relation<TAB>tail` each"
            raise DataError(f"no triples here{why}", self.path)
        found = encoder.finish(Source(self.path.name, sha256, encoder.rows))
        is_named = bool(self.names or self.options.columns)
        told = describe(layout.names, layout.places, found.triple(0)) if is_named else ""
        if self.options.header is None and not self.names:
            notes += header_note(found.ids, found.triple(0))
        return dataclasses.replace(found, layout=told, notes=tuple(notes))

    def _is_header(self, row: Sequence[str]) -> bool:
        if self.options.has_names:
            return True
        return looks_like_header(row) if self.options.header is None else self.options.header

    def _columns(self, piece: Piece, layout: Layout) -> Sequence[Sequence[str]]:
        """Return the columns of a piece whose rows are all as wide as they should be."""
        rows, columns = piece.rows, piece.columns
        if not rows and len(columns) != layout.width:
            rows = list(zip(*columns, strict=True))
        if any(len(row) != layout.width for row in rows):
            leaves_out = self.options.skip_blank or self.options.na
            _refuse(rows, piece.lines, layout, self.path, is_checked=not leaves_out)
        return list(zip(*rows, strict=True)) if rows else columns

    def _add(self, columns: Sequence[Sequence[str]], lines: Sequence[int], layout: Layout) -> None:
        places, encoder = layout.places, self.encoder
        triple = [columns[place] for place in places.triple]
        label, confidence = (None if place is None else columns[place] for place in places[1:])
        kept = self.options.kept(triple)
        if kept is not None:
            *chosen, label, confidence, numbers = selected(kept, *triple, label, confidence, lines)
            triple, lines = [cells or [] for cells in chosen], numbers or []
            encoder.left_out += len(kept) - len(lines)
        signs = weights = None
        try:
            if label is not None:
                signs = parse_signs(label, lines, encoder.place, layout.label_place, self._hint())
            if confidence is not None:
                weights = parse_weights(confidence, lines, encoder.place)
        except DataError as error:
            _refuse_blank(triple, lines, self.path, before=error.line)
            raise
        encoder.add((triple[0], triple[1], triple[2]), lines, signs, weights)

    def _hint(self) -> str:
        """What to do about a column of labels that holds others."""
        if self.names:
            return "; if it is no label of truth, say --columns label="
        return (
            "; say --header if the first line names columns, or --columns head=1,relation=2,tail=3 to leave it unread"
        )


def read_text(path: Path, options: TableOptions) -> LabelledTriples:
    """Read one file of triples as text, packed or not."""
    reading = _Reading(path, options)
    with opened(path) as stream:
        for piece in _csv_pieces(stream, path) if is_csv(path) else _tab_pieces(stream, path):
            reading.take(piece)
        sha256 = stream.sha256()
    return reading.finish(sha256)


def is_csv(path: Path) -> bool:
    """Return whether a file's name says that commas part its columns."""
    return plain_suffix(path) == ".csv"


def _refuse(
    rows: Sequence[Sequence[str]], lines: Sequence[int], layout: Layout, path: Path, is_checked: bool
) -> NoReturn:
    """Name the first row that is wrong in some way; that one is too wide or too narrow is known."""
    for row, line in zip(rows, lines, strict=True):
        if len(row) == layout.width:
            if is_checked:
                _check_cells(row, line, layout, path)
            continue
        said = f"expected {layout.width} columns as in the first row, found {len(row)}"
        if len(row) not in (3, 4, layout.width):
            kind = "comma" if is_csv(path) else "tab"
            width = "3 or 4" if layout.width < 5 else layout.width
            said = f"expected {width} {kind}-separated columns, found {len(row)}"
            said += _TOO_MANY if len(row) > 4 >= layout.width else ""
        if any("\r" in cell for cell in row):
            said += "; a carriage return stands in this line: if it ends lines, replace it by a line feed"
        raise DataError(said, path, line)
    raise AssertionError("unreachable: some row has another width")


def _check_cells(row: Sequence[str], line: int, layout: Layout, path: Path) -> None:
    _refuse_blank([[row[place]] for place in layout.places.triple], [line], path)
    if layout.places.label is not None:
        parse_signs([row[layout.places.label]], [line], Place(path), layout.label_place)
    if layout.places.confidence is not None:
        parse_weights([row[layout.places.confidence]], [line], Place(path))


def _refuse_blank(
    triple: Sequence[Sequence[str]], lines: Sequence[int], path: Path, before: int | None = None
) -> None:
    for line, *labels in zip(lines, *triple, strict=True):
        if before is not None and line > before:
            return
        for role, label in zip(ROLES, labels, strict=True):
            if not label or label.isspace():
                raise DataError(f"the {role} is empty{SKIP_HINT}", path, line)


def _tab_pieces(stream: Opened, path: Path) -> Iterator[Piece]:
    """Split at tabs; a line may end in CRLF, and blank lines are passed over."""
    for data, start in whole_lines(stream, path, PIECE):
        text = decoded(data, path, start).replace(
            "\r\n", "\n"
        )  # not splitlines(): a label may hold U+2028 and its kin
        text = (_RETURNS.sub("", text) if "\r" in text else text).removesuffix("\n")
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
    texts = (decoded(data, path, line) for data, line in whole_lines(stream, path, PIECE, returns=False))
    reader = csv.reader((line for text in texts for line in io.StringIO(text, newline="")), strict=True)
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
