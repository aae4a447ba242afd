"""Shards: many files of triples, read piece by piece as cells that lie in one buffer, or as ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import ROLES, SKIP_HINT, Place
from staypositive.graph.readers.columns import Places, TableOptions
from staypositive.graph.readers.opening import PACKED, decoded, opened, plain_suffix, whole_lines
from staypositive.graph.readers.tables import parquet_batches
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
        from staypositive.graph.on_disk import kernels

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
    is the first of its file, and was not looked up in any list of names.
    """

    place: Place
    row: int
    labels: tuple[Labels, Labels, Labels] | None = None
    ids: NDArray[np.int64] | None = None
    numbers: NDArray[np.int64] | None = None
    left_out: int = 0
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


class Shard:
    """One file; `layout` is known once its first piece is read, if it is worth telling."""

    layout: Layout | None = None

    def __init__(self, path: Path, options: TableOptions) -> None:
        self.path, self.options = path, options

    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield the rows, about `size` bytes at once."""
        raise NotImplementedError

    def _require_facts(self, layout: Layout) -> None:
        """Refuse columns that a stream has no room for."""
        _, label, confidence = layout.places
        extra, role = (confidence, "confidence") if label is None else (label, "label")
        if extra is not None:
            name = layout.names[extra] if layout.names else extra + 1
            leave_unread = f"say --columns {role}= to leave it unread"
            way = leave_unread if layout.names else "say --columns head=1,relation=2,tail=3"
            raise DataError(f"a stream holds facts, all alike; leave the column {name!r} out, or {way}", self.path)


class _TextShard(Shard):
    def pieces(self, size: int) -> Iterator[Piece]:
        names: Sequence[str] | None = None
        layout: Layout | None = None
        with opened(self.path) as stream:
            for body, line in whole_lines(stream, self.path, size):
                decoded(body, self.path, line)  # which refuses what is no text
                body = body if body.endswith(b"\n") else body + b"\n"
                if names is None:
                    first, _, rest = body.partition(b"\n")
                    names = _cells(first) if self.options.is_header(_cells(first)) else ()
                    body, line = (rest, line + 1) if names else (body, line)
                may_be_header = layout is None and not names and self.options.header is None
                layout = layout or self._find_layout(names, body, line)
                labels = self._split(layout, body, line) if layout else ()
                if labels and len(labels[0].starts):
                    yield Piece(Place(self.path), line, labels, may_be_header=may_be_header)

    def _find_layout(self, names: Sequence[str], body: bytes, line: int) -> Layout | None:
        behind = body.lstrip(b"\r\n")
        if not behind:
            return None
        row = body.count(b"\n", 0, len(body) - len(behind))
        first = _cells(behind.partition(b"\n")[0])
        layout = Layout.of(names, first, self.options, self.path, 1 if names else line + row)
        if not names and layout.places.label is not None:
            self._refuse(body, line, row, 3)
        self._require_facts(layout)
        self.layout = layout if names or self.options.columns else None
        return layout

    def _split(self, layout: Layout, body: bytes, line: int) -> tuple[Labels, Labels, Labels]:
        from staypositive.graph.on_disk import kernels

        roles = np.full(layout.width, -1, dtype=np.int64)
        roles[list(layout.places.triple)] = range(3)
        data, lines = np.frombuffer(body, dtype=np.uint8), body.count(b"\n")
        starts, lengths = np.empty((2, lines, 3), dtype=np.int64)
        count, bad = kernels.split_lines(data, roles, starts, lengths)
        if bad >= 0:
            self._refuse(body, line, bad, layout.width)
        head, relation, tail = (Labels(data, starts[:count, i], lengths[:count, i]) for i in range(3))
        return head, relation, tail

    def _refuse(self, body: bytes, line: int, bad: int, width: int) -> None:
        found = body.split(b"\n", bad + 1)[bad].count(b"\t") + 1
        said = f"expected {width} tab-separated columns, found {found}"
        if found > width == 3:
            said += "; labels and confidences are not streamed: say --columns head=1,relation=2,tail=3"
        raise DataError(said, self.path, line + bad)


def _cells(line: bytes) -> list[str]:
    return line.decode("utf-8", "replace").rstrip("\r").split("\t")


class _ArrayShard(Shard):
    def pieces(self, size: int) -> Iterator[Piece]:
        self.options.refuse(str(self.path))
        try:
            whole = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DataError(f"not a readable array: {error}", self.path) from None
        if whole.ndim != 2 or whole.shape[1] != 3 or not np.issubdtype(whole.dtype, np.integer):
            said = f"expected whole numbers of shape (n, 3), found {whole.dtype} of {whole.shape}"
            raise DataError(said, self.path)
        step = max(1, size // 24)
        for first in range(0, len(whole), step):
            yield Piece(Place(self.path, "row"), first + 1, ids=whole[first : first + step].astype(np.int64))


class _ParquetShard(Shard):
    _row = 1

    def pieces(self, size: int) -> Iterator[Piece]:
        return parquet_batches(self.path, self.options, max(1, size // 64), self._piece)

    def _piece(self, names: list[str], places: Places, found: dict[int, Any]) -> Piece:
        import pyarrow

        self.layout = Layout(len(names), places, names)
        self._require_facts(self.layout)
        columns = [found[place] for place in places.triple]
        place, row, numbers = Place(self.path, "row"), self._row, None
        self._row += len(columns[0])
        missing = np.column_stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
        if missing.any():
            first, part = np.argwhere(missing)[0].tolist()
            if not self.options.skip_blank:
                raise place.error(f"the {ROLES[part]} is missing{SKIP_HINT}", row + first)
            numbers = np.flatnonzero(~missing.any(1))
            columns = [column.take(pyarrow.array(numbers)) for column in columns]
        left_out = len(missing) - len(columns[0])
        kinds = {pyarrow.types.is_integer(column.type) for column in columns}
        if len(kinds) == 2:
            raise DataError("head, relation and tail are all text or all whole numbers in a stream", self.path)
        if True in kinds:
            ids = np.column_stack([column.to_numpy().astype(np.int64) for column in columns])
            return Piece(place, row, ids=ids, numbers=numbers, left_out=left_out)
        head, relation, tail = (_arrow_labels(column, self.path) for column in columns)
        return Piece(place, row, (head, relation, tail), numbers=numbers, left_out=left_out)


def _arrow_labels(column: Any, path: Path) -> Labels:
    import pyarrow

    try:
        text = column.cast(pyarrow.large_string())
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid):
        raise DataError(f"labels are text or whole numbers, found a column of {column.type}", path) from None
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    blob = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Labels(blob, ends[:-1], np.diff(ends))


def open_shard(path: Path, options: TableOptions) -> Shard:
    kinds: dict[str, type[Shard]] = {PARQUET: _ParquetShard, ARRAY: _ArrayShard}
    return kinds.get(plain_suffix(path), _TextShard)(path, options)
