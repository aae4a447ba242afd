"""Readers for the layouts the field uses: folders of splits, single files, CSV, TSV, gzip.

Labels are kept to the letter: "nan", "NA" and spaces survive. A file that is not what it should be gives one
`DataError` that names the file and the line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.files import sha256_bytes
from staypositive.graph.knowledge_graph import SPLITS, Columns, KnowledgeGraph, Source, encode

log = logging.getLogger(__name__)

SUFFIXES = (".txt", ".tsv", ".csv")
_HEADER_NAMES = (
    {"head", "subject", "subj", "source", "src", "from"},
    {"relation", "rel", "predicate", "pred", "property"},
    {"tail", "object", "obj", "target", "dst", "to"},
)  # whole words alone: (s, p, o) may well be a triple of somebody's toy graph
_SIGNS = {"1": 1, "-1": -1}


@dataclass(frozen=True)
class LabelledTriples:
    """What one file says: three columns of labels, ±1 for each row if the file has them, its lines and its source."""

    columns: Columns
    signs: NDArray[np.int8] | None
    lines: Sequence[int]
    source: Source

    def __len__(self) -> int:
        return len(self.columns[0])


def read_triples(path: str | os.PathLike[str], header: bool | None = None) -> LabelledTriples:
    """Read one file of triples: tab-separated, or CSV when its name ends in .csv; either may be gzipped.

    `header` says whether the first line names the columns; None looks whether it reads like head, relation, tail.
    """
    path = Path(path)
    data = _read_bytes(path)
    text = _decode(_gunzip(data, path), path)
    columns, lines = _columns(text, path, header)
    if not lines:
        raise DataError("no triples here; expected one line `head<TAB>relation<TAB>tail` each", path)
    if len(columns) not in (3, 4):
        _find_culprit(list(zip(*columns, strict=True)), lines, path)
    heads, relations, tails, *rest = columns
    blank = any(not label or label.isspace() for label in {*heads, *relations, *tails})
    if blank or (rest and not set(rest[0]) <= set(_SIGNS)):
        _find_culprit(list(zip(*columns, strict=True)), lines, path)
    signs = np.array([_SIGNS[value] for value in rest[0]], dtype=np.int8) if rest else None
    source = Source(path.name, sha256_bytes(data), len(lines))
    return LabelledTriples((heads, relations, tails), signs, lines, source)


def read_folder(
    folder: str | os.PathLike[str], header: bool | None = None, name: str | None = None
) -> KnowledgeGraph:
    """Read a folder of train, valid and test files (.txt, .tsv or .csv, gzipped or not).

    Valid and test may carry a fourth column of 1 or -1, or keep their false triples in `*_negatives` files.
    """
    folder = Path(folder)
    files = {split: _find(folder, split) for split in SPLITS}
    missing = [split for split, path in files.items() if path is None]
    if missing:
        raise DataError(
            f"no file for {' and '.join(missing)}; expected train.txt, valid.txt and test.txt (or .tsv, .csv, .gz). "
            "To let staypositive split one file, give the file itself",
            folder,
        )
    if _find(folder, "train_negatives") is not None:
        raise DataError(
            "training uses facts alone; remove train_negatives, or share it out to valid and test", folder
        )
    paths = {split: [path] for split, path in files.items() if path is not None}
    for split in ("valid", "test"):
        negatives = _find(folder, f"{split}_negatives")
        if negatives is not None:
            paths[split].append(negatives)
    return read_splits(paths, header=header, name=name or folder.resolve().name)


def read_splits(paths: dict[str, list[Path]], name: str, header: bool | None = None) -> KnowledgeGraph:
    """Read a graph from the files of each split; a file called `*_negatives*` holds false triples."""
    columns: dict[str, Columns] = {}
    signs: dict[str, NDArray[np.int8] | None] = {}
    sources: list[Source] = []
    for split, files in paths.items():
        parts = [read_triples(path, header) for path in files]
        for path, part in zip(files, parts, strict=True):
            if split == "train":
                require_facts(part, path)
        sources += [part.source for part in parts]
        columns[split] = _join([part.columns for part in parts])
        signs[split] = _join_signs(parts, files)
    return encode(name, columns, signs, sources)


def require_facts(part: LabelledTriples, path: Path) -> None:
    """Refuse a file for training that labels a triple false."""
    if part.signs is not None and (part.signs < 0).any():
        first = int(np.flatnonzero(part.signs < 0)[0])
        triple = " ".join(column[first] for column in part.columns)
        said = f"training uses facts alone, but `{triple}` is labelled -1; move it to valid or test"
        raise DataError(said, path, part.lines[first])


def _join(parts: Sequence[Columns]) -> Columns:
    heads, relations, tails = ([label for part in parts for label in part[column]] for column in range(3))
    return heads, relations, tails


def _join_signs(parts: Sequence[LabelledTriples], files: Sequence[Path]) -> NDArray[np.int8] | None:
    if len(parts) == 1 and parts[0].signs is None:
        return None
    signs = []
    for part, path in zip(parts, files, strict=True):
        default = -1 if "_negatives" in path.name else 1
        signs.append(np.full(len(part), default, dtype=np.int8) if part.signs is None else part.signs)
    return np.concatenate(signs)


def _find(folder: Path, stem: str) -> Path | None:
    names = [f"{stem}{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        raise DataError(f"both {found[0].name} and {found[1].name} are here; keep one", folder)
    return found[0] if found else None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def _gunzip(data: bytes, path: Path) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the gzip data is damaged: {error}", path) from error


def _decode(data: bytes, path: Path) -> str:
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"invalid UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8", path, line
        ) from None


def _is_csv(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def _columns(text: str, path: Path, header: bool | None) -> tuple[list[Sequence[str]], Sequence[int]]:
    """Split a file into its columns, and say which line each row came from; an error where rows differ in width."""

    def is_header(row: Sequence[str]) -> bool:
        if not (looks_like_header(row) if header is None else header):
            return False
        log.info("%s: the first line is taken for column names", path)
        return True

    columns = [] if _is_csv(path) else _even_columns(text)
    if columns:
        start = int(is_header([column[0] for column in columns]))
        return [column[start:] for column in columns] if start else columns, range(1 + start, len(columns[0]) + 1)
    rows, lines = _csv_rows(text, path) if _is_csv(path) else _tab_rows(text)
    if rows and is_header(rows[0]):
        rows, lines = rows[1:], lines[1:]
    if any(len(row) != len(rows[0]) for row in rows):
        _find_culprit(rows, lines, path)
    return list(zip(*rows, strict=True)), lines


def _even_columns(text: str) -> list[Sequence[str]]:
    """Split tab-separated text whose lines all have as many tabs, at once; empty where it is not so plain."""
    body = text.replace("\r\n", "\n").removesuffix("\n")
    if not body:
        return []
    width = body.partition("\n")[0].count("\t") + 1
    data = np.frombuffer(f"{body}\n".encode(), dtype=np.uint8)
    marks = data[(data == ord("\t")) | (data == ord("\n"))]
    pattern = np.array([ord("\t")] * (width - 1) + [ord("\n")], dtype=np.uint8)
    if width < 2 or len(marks) % width or (marks.reshape(-1, width) != pattern).any():
        return []
    cells = body.replace("\n", "\t").split("\t")
    return [cells[column::width] for column in range(width)]


def _tab_rows(text: str) -> tuple[list[list[str]], Sequence[int]]:
    """Split at tabs; a line may end in CRLF, and blank lines are passed over."""
    lines = text.replace("\r\n", "\n").split("\n")  # not splitlines(): a label may hold U+2028 and its kin
    if lines[-1] == "":
        lines.pop()
    if "" in lines:
        kept = [number for number, line in enumerate(lines, 1) if line]
        return [lines[number - 1].split("\t") for number in kept], kept
    return [line.split("\t") for line in lines], range(1, len(lines) + 1)


def _csv_rows(text: str, path: Path) -> tuple[list[list[str]], Sequence[int]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, lines, line = [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1  # a quoted cell may span lines: a record is named by its first
    except csv.Error as error:
        raise DataError(f"not valid CSV: {error}", path, line) from None
    return rows, lines


def looks_like_header(row: Sequence[str]) -> bool:
    """Return whether a first row names columns rather than stating a triple."""
    cells = [cell.strip().casefold() for cell in row[:3]]
    return len(cells) == 3 and all(cell in names for cell, names in zip(cells, _HEADER_NAMES, strict=True))


def _find_culprit(rows: Sequence[Sequence[str]], lines: Sequence[int], path: Path) -> None:
    """Name the first row that is wrong; whether there is one was looked at for all rows together."""
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) not in (3, 4):
            kind = "comma" if _is_csv(path) else "tab"
            raise DataError(f"expected 3 or 4 {kind}-separated columns, found {len(row)}", path, line)
        if len(row) != width:
            raise DataError(f"expected {width} columns as in the first row, found {len(row)}", path, line)
        for role, label in zip(("head", "relation", "tail"), row[:3], strict=True):
            if not label or label.isspace():
                raise DataError(f"the {role} is empty", path, line)
        if width == 4 and row[3] not in _SIGNS:
            raise DataError(f"expected 1 or -1 in the fourth column, found {row[3]!r}", path, line)
