"""Targets `headers` and `columns`: tables with drawn headers, marks, encodings and line ends; and with options."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuzzing.cases import Target, named_refusal
from fuzzing.drawing import HOSTILE, anything, mutated_bytes, text
from staypositive.errors import StayPositiveError
from staypositive.graph import ingest, load_graph, read_triples
from staypositive.graph.labelled import LabelledTriples
from staypositive.graph.readers import TableOptions, read_table
from staypositive.graph.readers.columns import ALL_FAMILIES, FAMILIES

ROWS = [("Ada", "knows", "Grace"), ("Grace", "knows", "Alan"), ("Alan", "likes", "Ada"), ("Ada", "likes", "Alan")]
EXTRAS = ("label", "confidence", "note", "id", "source", "weight", "", "Quelle", "sign")
ENDS = ("\n", "\n", "\r\n", "\r\r\n", "\r", "\n\r\n", "\n\n")
ENCODINGS = (*["utf-8"] * 15, "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252")
MISSING = (None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", " ", "N/A", "-")
ODD = (
    ["a"],
    np.array([1, 2]),
    {"k": 1},
    (1,),
    b"a",
    True,
    1.5,
    10**400,
    np.int64(3),
    7,
    object,
    pd.Timestamp(0),
    "é",
    "\0",
)
LEAST = 128 << 20


def checked(found: LabelledTriples) -> LabelledTriples:
    """Hold what was read to what every reader promises."""
    assert len(found) == len(found.lines) == found.source.rows > 0
    for label in (*found.entities, *found.relations):
        assert label.strip(), "a blank label was let through"
        label.encode("utf-8")
    return found


def rows_of(found: LabelledTriples) -> list[tuple[str, ...]]:
    """Return triples by label."""
    return list(zip(*found.columns, strict=True))


def spelt(draw: random.Random, name: str) -> str:
    """Return a name in another case, with spaces around it now and then."""
    return draw.choice((name, name, name.upper(), name.title(), f" {name}", f"{name} "))


class Headers(Target):
    """Text whose first line, marks, line ends and encoding are drawn."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.has_numba = folder, find_spec("numba") is not None

    def case(self, draw: random.Random) -> str:
        ways = (self.permuted, self.mutated, self.mutated, self.ends)
        return draw.choice(ways)(draw)

    def permuted(self, draw: random.Random) -> str:
        """A known header, in any order and spelling, among columns that are not read, gives the same triples."""
        names = draw.choice(FAMILIES)
        extras = draw.sample(("note", "id", "Quelle", "Datum"), draw.randrange(3))
        order = draw.sample(range(3 + len(extras)), 3 + len(extras))
        header = [spelt(draw, name) for name in (*names, *extras)]
        table = [header, *([*row, *("x" for _ in extras)] for row in ROWS)]
        shuffled = [[row[i] for i in order] for row in table]
        found = checked(read_triples(self._write(draw.choice(("x.tsv", "x.csv")), shuffled, "\n")))
        assert rows_of(found) == ROWS, (header, order)
        frame = pd.DataFrame(shuffled[1:], columns=shuffled[0])
        assert rows_of(checked(read_table(frame))) == ROWS
        if self.has_numba and draw.random() < 0.02:
            self._same_as_a_stream(shuffled)
        return "permuted"

    def mutated(self, draw: random.Random) -> str:
        """Any first line, rows, encoding and damage."""
        width = draw.choice((3, 3, 3, 4, 4, 5, 2, 6))
        header = [spelt(draw, name) for name in (*draw.choice(ALL_FAMILIES), *draw.sample(EXTRAS, 3))][:width]
        for _ in range(draw.choice((0, 0, 1, 1, 2, 5))):
            pool = (*EXTRAS, *HOSTILE, *draw.choice(ALL_FAMILIES), "Name", "Wert")
            header[draw.randrange(width)] = draw.choice(pool)
        usual_cells = {"label": "1", "sign": "-1", "confidence": "0.5", "weight": "2"}
        rows = [[*row, *(usual_cells.get(name, "x") for name in header[3:]), "x"] for row in ROWS]
        order = draw.sample(range(width), width)
        header = [header[place] for place in order]
        rows = [[row[place] for place in order] for row in rows]
        if draw.random() < 0.1:
            rows[draw.randrange(len(rows))].append("y")
        table = [header] * draw.choice((1, 1, 1, 0, 2)) + rows
        name = draw.choice(("x.tsv", "x.csv", "x.txt"))
        usual = "," if name.endswith("csv") else "\t"
        mark = draw.choice((*[usual] * 9, "\t", ",", ";"))
        content = draw.choice(ENDS).join(map(mark.join, table)) + draw.choice(("", "\n", "\r", "\r\n"))
        data = content.encode(draw.choice(ENCODINGS), "replace")
        path = self.folder / name
        path.write_bytes(mutated_bytes(draw, data, data) if draw.random() < 0.3 else data)
        header_given = draw.choice((None, None, None, True, False))
        try:
            found = checked(read_triples(path, header_given))
        except StayPositiveError as error:
            return named_refusal(error, name)
        return f"read {bool(found.layout)}"

    def ends(self, draw: random.Random) -> str:
        """Lines that end in any one way are the same lines."""
        end = draw.choice(ENDS)
        last = draw.choice(("", end, "\r")) if end != "\r" else draw.choice(("", "\r"))
        for name in ("x.tsv", "x.csv"):
            assert rows_of(checked(read_triples(self._write(name, ROWS, end, last)))) == ROWS, (end, last)
        return "ends"

    def _same_as_a_stream(self, table: Any) -> None:
        path = self._write("x.tsv", table, "\n")
        graph = ingest(path, self.folder / "out", memory=LEAST, force=True)
        words = (graph.entities, graph.relations, graph.entities)
        read = [tuple(own[i] for own, i in zip(words, row, strict=True)) for row in graph.train.triples.tolist()]
        assert sorted(read) == sorted(ROWS)

    def _write(self, name: str, table: Any, end: str, last: str | None = None) -> Path:
        path = self.folder / name
        mark = "," if name.endswith("csv") else "\t"
        path.write_bytes((end.join(map(mark.join, table)) + (end if last is None else last)).encode())
        return path


class Columns(Target):
    """Frames and files with `columns=`, `na=` and `skip_blank=` drawn at random."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_parquet = find_spec("pyarrow") is not None

    def case(self, draw: random.Random) -> str:
        return draw.choice((self.named, self.frames, self.files, self.files))(draw)

    def named(self, draw: random.Random) -> str:
        """Columns of any name and order, said by name or number, give the same triples; gaps are left out."""
        names = draw.sample(("Name", "Eigenschaft", "Wert", "a=b", "x y", "head", "o", "7", "Ort", "label"), 5)
        order = draw.sample(range(5), 5)
        gaps = [[*ROWS[0], "x", "y"] for _ in range(draw.randrange(3))]
        for gap in gaps:
            gap[draw.randrange(3)] = draw.choice(("", " ", "N/A"))
        full = [[*row, "x", "y"] for row in ROWS]
        table = [*full[:2], *gaps, *full[2:]]
        shuffled = [[row[i] for i in order] for row in (names, *table)]
        by_name: dict[str, Any] = dict(zip(draw.choice(ALL_FAMILIES), names, strict=False))
        by_number = {role: 1 + order.index(part) for part, role in enumerate(by_name)}
        none = {"label": None, "confidence": None}
        path = self.folder / draw.choice(("x.tsv", "x.csv"))
        mark = "," if path.suffix == ".csv" else "\t"
        path.write_text("\n".join(map(mark.join, shuffled)), "utf-8")
        options: dict[str, Any] = {"skip_blank": True, "na": "N/A"}
        frame = pd.DataFrame(shuffled[1:], columns=shuffled[0])
        for columns in (by_name | none, by_number | none):
            found = checked(read_triples(path, True, columns=columns, **options))
            assert rows_of(found) == ROWS, (names, order, columns)
            assert len(found.notes) == (len(gaps) > 0)
            assert rows_of(checked(read_table(frame, options=TableOptions.of(columns=columns, **options)))) == ROWS
        return "named"

    def frames(self, draw: random.Random) -> str:
        """Cells of any kind under columns of any name."""
        names = self._names(draw)
        size = draw.randrange(4)
        columns = []
        for _ in names:
            cells = np.empty(size, dtype=object)
            for row in range(size):
                usual = draw.choice(("Ada", "knows", 1, 1, 1))
                cells[row] = usual if draw.random() < 0.9 else draw.choice((*MISSING, *ODD, *HOSTILE))
            is_text = all(isinstance(cell, str) for cell in cells)  # of which pandas refuses half a character
            columns.append(pd.Series(cells, dtype=object if is_text or draw.random() < 0.5 else None))
        frame = pd.concat(columns, axis=1).set_axis(names, axis=1)
        try:
            checked(read_table(frame, options=self._options(draw, names)))
        except StayPositiveError as error:
            return f"refused: {type(error).__name__}"
        return "read"

    def files(self, draw: random.Random) -> str:
        """Text and Parquet of any cells with any options; the error names the file unless an option is wrong."""
        names = self._names(draw)
        cells = ("Ada", "knows", "1", "1", "1", "-1", "1", "N/A", "", *draw.sample(HOSTILE, draw.choice((0, 0, 3))))
        rows = [[draw.choice(cells) for _ in names] for _ in "abc"]
        try:
            options = self._options(draw, names)
        except StayPositiveError as error:
            return f"options: {type(error).__name__}"
        path = self.folder / draw.choice(("x.tsv", "x.csv", *(("x.parquet",) if self.has_parquet else ())))
        if path.suffix == ".parquet":
            try:
                pd.DataFrame(rows, columns=names).to_parquet(path)
            except (ValueError, UnicodeEncodeError):  # two columns of one name, or half a character
                return "not a case"
        else:
            mark = "," if path.suffix == ".csv" else "\t"
            path.write_bytes("\n".join(map(mark.join, [names, *rows])).encode("utf-8", "surrogatepass"))
        given = {"columns": options.columns, "skip_blank": options.skip_blank, "na": options.na}
        try:
            if draw.random() < 0.2:
                load_graph(path, header=options.header, **given)
            else:
                checked(read_triples(path, options.header, **given))
        except StayPositiveError as error:
            return named_refusal(error, path.name)
        return "read"

    def _names(self, draw: random.Random) -> list[str]:
        if draw.random() < 0.3:
            return draw.sample((*draw.choice(ALL_FAMILIES), *EXTRAS, "x", "y"), draw.randrange(2, 7))
        names = [*draw.choice((*ALL_FAMILIES, ("a", "b", "c"))), *draw.sample(EXTRAS, draw.randrange(3))]
        return draw.sample(names, len(names))

    def _options(self, draw: random.Random, names: list[str]) -> TableOptions:
        columns: Any = dict(zip(draw.choice(ALL_FAMILIES), names, strict=False)) if draw.random() < 0.4 else {}
        if draw.random() < 0.4:
            roles = (*draw.choice(ALL_FAMILIES), "label", "confidence", text(draw))
            for role in draw.sample(roles, draw.choice((1, 3, 3, 4))):
                columns[role] = draw.choice((*names, *range(-1, len(names) + 2), *names, text(draw), None))
        if draw.random() < 0.02:
            columns = anything(draw)
        na: Any = draw.choice(((), "N/A", ["N/A", "-", ""], [text(draw)], [3] if draw.random() < 0.1 else "-"))
        header = draw.choice((None, None, True, False))
        return TableOptions.of(header, columns, draw.random() < 0.7, na)
