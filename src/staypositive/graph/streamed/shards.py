"""Shards: many files of triples, read piece by piece as cells that lie in one buffer, or as ids."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.knowledge_graph import Source
from staypositive.graph.labelled import ROLES, Place
from staypositive.graph.readers.names import looks_like_header
from staypositive.graph.readers.opening import PACKED, opened, plain_suffix
from staypositive.graph.readers.parquet import import_parquet
from staypositive.graph.readers.tables import find_columns

TEXT, PARQUET, ARRAY = (".tsv", ".txt"), ".parquet", ".npy"


@dataclass(frozen=True, eq=False)
class Labels:
    """One column of a piece: where in `data` each label lies."""

    data: NDArray[np.uint8]
    starts: NDArray[Any]
    lengths: NDArray[Any]

    def take(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of some rows, one behind another."""
        from staypositive.graph.streamed import kernels

        lengths = self.lengths[rows].astype(np.int64)
        blob = np.empty(int(lengths.sum()), dtype=np.uint8)
        kernels.gather_bytes(self.data, self.starts[rows], lengths, blob)
        return Labels(blob, np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a shard: three columns of labels, or ids of shape (n, 3); `row` is the first's number, or line."""

    place: Place
    row: int
    labels: tuple[Labels, Labels, Labels] | None = None
    ids: NDArray[np.int64] | None = None

    def refuse(self, column: int, row: int, what: str) -> DataError:
        """Return the error about one cell."""
        if self.labels is not None and self.place.unit == "line":  # blank lines are no rows, so lines are counted
            cell = self.labels[column]
            row = int(np.count_nonzero(cell.data[: cell.starts[row]] == ord("\n")))
        return self.place.error(f"the {ROLES[column]} {what}", self.row + row)


def find_shards(files: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files meant by paths, patterns and folders: sorted, each once."""
    found: set[Path] = set()
    for given in files:
        path = Path(given)
        if path.is_dir():
            own = [each for each in path.iterdir() if plain_suffix(each) in (*TEXT, PARQUET, ARRAY)]
        else:
            own = [path] if path.is_file() else _matching(str(given))
        if not own:
            raise InputError(f"{given} is no file, no pattern that some file fits, and no folder of shards")
        found.update(own)
    for path in found:
        suffix = plain_suffix(path)
        if suffix not in (*TEXT, PARQUET, ARRAY) or (suffix in (PARQUET, ARRAY) and path.name.endswith(PACKED)):
            known = f"{', '.join(TEXT)} (also packed: {', '.join(PACKED)}), {PARQUET} and {ARRAY}"
            raise InputError(f"{path} cannot be streamed: shards end in {known}")
    return sorted(found)


def _matching(pattern: str) -> list[Path]:
    root = Path(pattern).anchor
    return [path for path in Path(root).glob(str(Path(pattern).relative_to(root))) if path.is_file()]


def read_shard(path: Path, size: int, header: bool | None, sources: list[Source]) -> Iterator[Piece]:
    """Yield a shard in pieces of about so many bytes; then note in `sources` what it was."""
    suffix, rows = plain_suffix(path), 0
    reader = _parquet_pieces if suffix == PARQUET else _array_pieces if suffix == ARRAY else None
    try:
        pieces = _text_pieces(path, size, header, sources) if reader is None else reader(path, size)
        for piece in pieces:
            rows += len(piece.ids) if piece.ids is not None else len(piece.labels[0].starts)  # type: ignore[index]
            yield piece
        if reader is not None:
            sources.append(Source(path.name, sha256_file(path), rows))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def _text_pieces(path: Path, size: int, header: bool | None, sources: list[Source]) -> Iterator[Piece]:
    from staypositive.graph.streamed import kernels

    place, line, rows = Place(path), 1, 0
    room = np.empty((1, 3), dtype=np.int64), np.empty((1, 3), dtype=np.int64)
    with opened(path) as stream:
        for body in _whole_lines(stream, size):
            if line == 1:
                first, _, rest = body.partition(b"\n")
                cells = first.decode("utf-8", "replace").rstrip("\r").split("\t")
                if looks_like_header(cells) if header is None else header:
                    body, line = rest, 2
            try:
                body.decode("utf-8")
            except UnicodeDecodeError as error:
                said = f"invalid UTF-8 (byte 0x{body[error.start]:02x}); save the file as UTF-8"
                raise DataError(said, path, line + body.count(b"\n", 0, error.start)) from None
            lines = body.count(b"\n")
            if len(room[0]) < lines:
                room = np.empty((lines, 3), dtype=np.int64), np.empty((lines, 3), dtype=np.int64)
            data = np.frombuffer(body, dtype=np.uint8)
            count, bad = kernels.split_lines(data, *room)
            if bad >= 0:
                width = body.split(b"\n", bad + 1)[bad].count(b"\t") + 1
                raise DataError(
                    f"expected 3 tab-separated columns, found {width}; labels and confidences are not streamed",
                    path,
                    line + bad,
                )
            head, relation, tail = (Labels(data, room[0][:count, i], room[1][:count, i]) for i in range(3))
            if count:
                yield Piece(place, line, (head, relation, tail))
            line, rows = line + lines, rows + count
        sources.append(Source(path.name, stream.sha256(), rows))


def _whole_lines(stream: Any, size: int) -> Iterator[bytes]:
    """Yield bytes that end where a line ends; the mark of UTF-8 at the start is left out."""
    rest, start = b"", True
    while data := stream.read(size):
        data = data.removeprefix(codecs.BOM_UTF8) if start else data
        body, end, tail = data.rpartition(b"\n")
        if end:
            yield rest + body + end
            rest = tail
        else:
            rest += data
        start = False
    if rest:
        yield rest + b"\n"


def _array_pieces(path: Path, size: int) -> Iterator[Piece]:
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"not a readable array: {error}", path) from None
    if whole.ndim != 2 or whole.shape[1] != 3 or not np.issubdtype(whole.dtype, np.integer):
        raise DataError(f"expected whole numbers of shape (n, 3), found {whole.dtype} of {whole.shape}", path)
    step = max(1, size // 24)
    for first in range(0, len(whole), step):
        yield Piece(Place(path, "row"), first + 1, ids=whole[first : first + step].astype(np.int64))


def _parquet_pieces(path: Path, size: int) -> Iterator[Piece]:
    library = import_parquet()
    import pyarrow

    place, row = Place(path, "row"), 1
    try:
        with library.ParquetFile(path) as file:
            names = file.schema_arrow.names
            triple, label, confidence = find_columns(names)
            extra = label if label is not None else confidence
            if extra is not None:
                raise DataError(f"a stream holds facts, all alike; leave the column {names[extra]!r} out", path)
            for batch in file.iter_batches(max(1, size // 64), columns=[names[i] for i in triple]):
                columns = [batch.column(batch.schema.get_field_index(names[i])) for i in triple]
                for column, role in zip(columns, ROLES, strict=True):
                    if column.null_count:
                        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise place.error(f"the {role} is missing", row + first)
                kinds = {pyarrow.types.is_integer(column.type) for column in columns}
                if len(kinds) == 2:
                    raise DataError("head, relation and tail are all text or all whole numbers in a stream", path)
                if True in kinds:
                    yield Piece(place, row, ids=np.column_stack([c.to_numpy().astype(np.int64) for c in columns]))
                else:
                    head, relation, tail = (_arrow_labels(column, path) for column in columns)
                    yield Piece(place, row, (head, relation, tail))
                row += len(batch)
    except (DataError, OSError):
        raise
    except (ValueError, InputError) as error:  # pyarrow's own errors are of the first kind
        raise DataError(f"not a readable Parquet file: {error}", path) from None


def _arrow_labels(column: Any, path: Path) -> Labels:
    """Return a column of text as it lies in Arrow's buffers."""
    import pyarrow

    try:
        text = column.cast(pyarrow.large_string())
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid):
        raise DataError(f"labels are text or whole numbers, found a column of {column.type}", path) from None
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    blob = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Labels(blob, ends[:-1], np.diff(ends))
