"""Shards: many files of triples, read piece by piece as cells that lie in one buffer, or as ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_file
from staypositive.graph.knowledge_graph import Source
from staypositive.graph.labelled import ROLES, SKIP_HINT, Place
from staypositive.graph.on_disk.chunks import Labels, Piece
from staypositive.graph.on_disk.text import Columns, TextShard
from staypositive.graph.readers.columns import describe, find_columns, log
from staypositive.graph.readers.opening import PACKED, plain_suffix
from staypositive.graph.readers.options import TableOptions
from staypositive.graph.readers.parquet import column_names, import_parquet

TEXT, PARQUET, ARRAY = (".tsv", ".txt"), ".parquet", ".npy"


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


class ShardReader:
    """Reads shards one after another, and tells how: which columns are read, and what was left out."""

    def __init__(self, size: int, options: TableOptions) -> None:
        self.size, self.options = size, options
        self.sources: list[Source] = []
        self._told: Columns | None = None

    def read(self, path: Path) -> Iterator[Piece]:
        """Yield a shard in pieces of about so many bytes; then note in `sources` what it was."""
        shard = _SHARDS.get(plain_suffix(path), TextShard)(path, self.options)
        rows = left_out = 0
        try:
            for piece in shard.pieces(self.size):
                full = piece.with_values(self.options)
                left_out += len(piece) - len(full)
                if len(full):
                    if not rows:
                        self._tell(path, shard.columns, full)
                    rows += len(full)
                    yield full
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", path) from error
        for note in self.options.note(left_out + shard.left_out):
            log.warning("%s: %s", path.name, note)
        self.sources.append(Source(path.name, shard.sha256 or sha256_file(path), rows))

    def _tell(self, path: Path, columns: Columns | None, piece: Piece) -> None:
        """Say which columns are read, unless the shard before had the same."""
        if columns is not None and columns != self._told:
            log.info("%s: %s", path.name, describe(*columns, piece.first()))
        self._told = columns


class _Shard:
    """One file that is no text."""

    def __init__(self, path: Path, options: TableOptions) -> None:
        self.path, self.options = path, options
        self.columns: Columns | None = None
        self.sha256, self.left_out = "", 0


class _ArrayShard(_Shard):
    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield ids."""
        path = self.path
        self.options.refuse(str(path))
        try:
            whole = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DataError(f"not a readable array: {error}", path) from None
        if whole.ndim != 2 or whole.shape[1] != 3 or not np.issubdtype(whole.dtype, np.integer):
            raise DataError(f"expected whole numbers of shape (n, 3), found {whole.dtype} of {whole.shape}", path)
        step = max(1, size // 24)
        for first in range(0, len(whole), step):
            yield Piece(Place(path, "row"), first + 1, ids=whole[first : first + step].astype(np.int64))


class _ParquetShard(_Shard):
    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield labels, or whole numbers as ids."""
        library = import_parquet()
        row = 1
        try:
            with library.ParquetFile(self.path) as file:
                names = file.schema_arrow.names
                places = find_columns(names, self.options.columns)
                self.columns = Columns(names, places)
                self.columns.require_facts(self.path)
                chosen = column_names(names, places)
                for batch in file.iter_batches(max(1, size // 64), columns=chosen):
                    columns = [batch.column(batch.schema.get_field_index(name)) for name in chosen]
                    yield self._piece(columns, row)
                    row += len(batch)
        except (DataError, OSError):
            raise
        except InputError as error:
            raise DataError(str(error), self.path) from None
        except ValueError as error:  # as pyarrow's own are
            raise DataError(f"not a readable Parquet file: {error}", self.path) from None

    def _piece(self, columns: list[Any], row: int) -> Piece:
        import pyarrow

        place, numbers = Place(self.path, "row"), None
        missing = np.column_stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
        if missing.any():
            first, part = np.argwhere(missing)[0].tolist()
            if not self.options.skip_blank:
                raise place.error(f"the {ROLES[part]} is missing{SKIP_HINT}", row + first)
            numbers = np.flatnonzero(~missing.any(1))
            self.left_out += len(missing) - len(numbers)
            columns = [column.take(pyarrow.array(numbers)) for column in columns]
        kinds = {pyarrow.types.is_integer(column.type) for column in columns}
        if len(kinds) == 2:
            raise DataError("head, relation and tail are all text or all whole numbers in a stream", self.path)
        if True in kinds:
            ids = np.column_stack([column.to_numpy().astype(np.int64) for column in columns])
            return Piece(place, row, ids=ids, numbers=numbers)
        head, relation, tail = (_arrow_labels(column, self.path) for column in columns)
        return Piece(place, row, (head, relation, tail), numbers=numbers)


_SHARDS: dict[str, Any] = {PARQUET: _ParquetShard, ARRAY: _ArrayShard}


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
