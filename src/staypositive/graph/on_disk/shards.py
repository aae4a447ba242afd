"""Shards: many files of triples, read piece by piece as cells that lie in one buffer, or as ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import ROLES, SKIP_HINT, Place
from staypositive.graph.on_disk import kernels
from staypositive.graph.readers.columns import TableOptions
from staypositive.graph.readers.opening import PACKED, decoded, opened, plain_suffix, whole_lines
from staypositive.graph.readers.tables import opened_parquet, parquet_batches
from staypositive.graph.readers.text import Layout

TEXT, PARQUET, ARRAY = (".tsv", ".txt"), ".parquet", ".npy"


def find_shards(files: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files meant by paths, patterns and folders: sorted, each once."""
    found: set[Path] = set()
    for given in files:
        path = Path(given)
        if path.is_dir():
            own = [each for each in path.iterdir() if plain_suffix(each) in (*TEXT, PARQUET, ARRAY)]
        else:
            matching = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
            own = [path] if path.is_file() else [each for each in matching if each.is_file()]
        if not own:
            raise InputError(f"{given} is no file, no pattern that some file fits, and no folder of shards")
        found.update(own)
    for path in found:
        suffix = plain_suffix(path)
        if suffix not in (*TEXT, PARQUET, ARRAY) or (suffix in (PARQUET, ARRAY) and path.name.endswith(PACKED)):
            known = f"{', '.join(TEXT)} (also packed: {', '.join(PACKED)}), {PARQUET} and {ARRAY}"
            raise InputError(f"{path} cannot be streamed: shards end in {known}")
    return sorted(found)


@dataclass(frozen=True, eq=False)
class Labels:
    """One column of a piece: where in `data` each label lies."""

    data: NDArray[np.uint8]
    starts: NDArray[Any]
    lengths: NDArray[Any]

    def take(self, rows: NDArray[np.int64]) -> Labels:
        lengths = self.lengths[rows].astype(np.int64)
        blob = np.empty(int(lengths.sum()), dtype=np.uint8)
        kernels.gather_bytes(self.data, self.starts[rows], lengths, blob)
        return Labels(blob, np.cumsum(lengths) - lengths, lengths)

    def text(self, row: int) -> str:
        start = int(self.starts[row])
        return bytes(self.data[start : start + int(self.lengths[row])]).decode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a shard: three columns of labels, or ids of shape (n, 3); `row` is the first's number, or line.

    Where rows were left out, `numbers` say how far each is behind the first. The first row `may_be_header` where it
    is the first of its file, and was not looked up in any list of names. `layout` is told where it is worth telling.
    """

    place: Place
    row: int
    labels: tuple[Labels, Labels, Labels] | None = None
    ids: NDArray[np.int64] | None = None
    numbers: NDArray[np.int64] | None = None
    left_out: int = 0
    layout: Layout | None = None
    may_be_header: bool = False

    def error(self, column: int, row: int, what: str) -> DataError:
        if self.labels is not None and self.place.unit == "line":  # blank lines are no rows, so lines are counted
            cell = self.labels[column]
            row = int(np.count_nonzero(cell.data[: cell.starts[row]] == ord("\n")))
        elif self.numbers is not None:
            row = int(self.numbers[row])
        return self.place.error(f"the {ROLES[column]} {what}", self.row + row)

    def triple(self, row: int) -> list[str]:
        if self.labels is None:
            assert self.ids is not None
            return [str(number) for number in self.ids[row].tolist()]
        return [labels.text(row) for labels in self.labels]


def read_pieces(path: Path, options: TableOptions, size: int) -> Iterator[Piece]:
    """Yield the rows of a shard, about `size` bytes at once."""
    kinds = {PARQUET: _parquet_pieces, ARRAY: _array_pieces}
    return kinds.get(plain_suffix(path), _text_pieces)(path, options, size)


def _text_pieces(path: Path, options: TableOptions, size: int) -> Iterator[Piece]:
    names: Sequence[str] | None = None
    layout: Layout | None = None
    with opened(path) as stream:
        for body, line in whole_lines(stream, size):
            decoded(body, path, line)  # which refuses what is no text
            body = body if body.endswith(b"\n") else body + b"\n"
            if names is None:
                first, _, rest = body.partition(b"\n")
                names = _cells(first) if options.is_header(_cells(first)) else ()
                body, line = (rest, line + 1) if names else (body, line)
            may_be_header = layout is None and not names and options.header is None
            layout = layout or _find_layout(names, body, line, options, path)
            labels = _split(layout, body, line, path) if layout else ()
            if labels and len(labels[0].starts):
                worth_telling = layout if names or options.columns else None
                yield Piece(Place(path), line, labels, layout=worth_telling, may_be_header=may_be_header)


def _find_layout(names: Sequence[str], body: bytes, line: int, options: TableOptions, path: Path) -> Layout | None:
    behind = body.lstrip(b"\r\n")
    if not behind:
        return None
    row = body.count(b"\n", 0, len(body) - len(behind))
    first = _cells(behind.partition(b"\n")[0])
    layout = Layout.of(names, first, options, path, 1 if names else line + row)
    if not names and layout.places.label is not None:
        raise _unlike(body, line, row, 3, path)
    _require_facts(layout, path)
    return layout


def _split(layout: Layout, body: bytes, line: int, path: Path) -> tuple[Labels, Labels, Labels]:
    roles = np.full(layout.width, -1, dtype=np.int64)
    roles[list(layout.places.triple)] = range(3)
    data, lines = np.frombuffer(body, dtype=np.uint8), body.count(b"\n")
    starts, lengths = np.empty((2, lines, 3), dtype=np.int64)
    count, bad = kernels.split_lines(data, roles, starts, lengths)
    if bad >= 0:
        raise _unlike(body, line, bad, layout.width, path)
    head, relation, tail = (Labels(data, starts[:count, i], lengths[:count, i]) for i in range(3))
    return head, relation, tail


def _unlike(body: bytes, line: int, bad: int, width: int, path: Path) -> DataError:
    """Return the error of a line that is not of this width."""
    found = body.split(b"\n", bad + 1)[bad].count(b"\t") + 1
    said = f"expected {width} tab-separated columns, found {found}"
    if found > width == 3:
        said += "; labels and confidences are not streamed: say --columns head=1,relation=2,tail=3"
    return DataError(said, path, line + bad)


def _require_facts(layout: Layout, path: Path) -> None:
    """Refuse columns that a stream has no room for."""
    _, label, confidence = layout.places
    extra, role = (confidence, "confidence") if label is None else (label, "label")
    if extra is not None:
        name = layout.names[extra] if layout.names else extra + 1
        leave_unread = f"say --columns {role}= to leave it unread"
        way = leave_unread if layout.names else "say --columns head=1,relation=2,tail=3"
        raise DataError(f"a stream holds facts, all alike; leave the column {name!r} out, or {way}", path)


def _cells(line: bytes) -> list[str]:
    return line.decode("utf-8", "replace").rstrip("\r").split("\t")


def _array_pieces(path: Path, options: TableOptions, size: int) -> Iterator[Piece]:
    options.refuse(str(path))
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"not a readable array: {error}", path) from None
    if whole.ndim != 2 or whole.shape[1] != 3 or not np.issubdtype(whole.dtype, np.integer):
        raise DataError(f"expected whole numbers of shape (n, 3), found {whole.dtype} of {whole.shape}", path)
    step = max(1, size // 24)
    for first in range(0, len(whole), step):
        yield Piece(Place(path, "row"), first + 1, ids=whole[first : first + step].astype(np.int64))


def _parquet_pieces(path: Path, options: TableOptions, size: int) -> Iterator[Piece]:
    row = 1
    with opened_parquet(path) as file:
        for names, places, columns in parquet_batches(file, options, max(1, size // 64)):
            layout = Layout(len(names), places, names)
            _require_facts(layout, path)
            triple = [columns[place] for place in places.triple]
            yield _arrow_piece(Place(path, "row"), row, triple, layout, options)
            row += len(triple[0])


def _arrow_piece(place: Place, row: int, columns: list[Any], layout: Layout, options: TableOptions) -> Piece:
    import pyarrow

    numbers = None
    missing = np.column_stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    if missing.any():
        first, part = np.argwhere(missing)[0].tolist()
        if not options.skip_blank:
            raise place.error(f"the {ROLES[part]} is missing{SKIP_HINT}", row + first)
        numbers = np.flatnonzero(~missing.any(1))
        columns = [column.take(pyarrow.array(numbers)) for column in columns]
    piece = Piece(place, row, numbers=numbers, left_out=len(missing) - len(columns[0]), layout=layout)
    kinds = {pyarrow.types.is_integer(column.type) for column in columns}
    if len(kinds) == 2:
        raise DataError("head, relation and tail are all text or all whole numbers in a stream", place.path)
    if True in kinds:
        return replace(piece, ids=np.column_stack([column.to_numpy().astype(np.int64) for column in columns]))
    head, relation, tail = (_arrow_labels(column, place) for column in columns)
    return replace(piece, labels=(head, relation, tail))


def _arrow_labels(column: Any, place: Place) -> Labels:
    import pyarrow

    try:
        text = column.cast(pyarrow.large_string())
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid):
        raise DataError(f"labels are text or whole numbers, found a column of {column.type}", place.path) from None
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    blob = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Labels(blob, ends[:-1], np.diff(ends))
