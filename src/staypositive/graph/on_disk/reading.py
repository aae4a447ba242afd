"""The first pass: labels become hashes, and those not seen before are put aside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.graph.on_disk.arrays import GrowingArray
from staypositive.graph.on_disk.building import VocabularyBuilder
from staypositive.graph.on_disk.chunks import Piece
from staypositive.graph.on_disk.job import CELLS, COLUMNS, Job, Sizes
from staypositive.graph.on_disk.shards import ShardReader
from staypositive.graph.readers.columns import header_note, log
from staypositive.graph.readers.options import TableOptions

LARGEST_NUMBER = 2**31 - 2


class Reading:
    """All triples as cells in a file, and the labels they have."""

    def __init__(self, job: Job, shards: Sequence[Path], options: TableOptions) -> None:
        self.job = job
        reader = ShardReader(job.piece, options)
        self.sources = reader.sources
        shares = {"entity": job.memory // 2, "relation": job.memory // 16}
        self.builders = {kind: VocabularyBuilder(kind, job.folder, share) for kind, share in shares.items()}
        self.numbers: Sizes | None = None
        """The sizes, where whole numbers are ids as they are."""
        total = sum(path.stat().st_size for path in shards)
        with GrowingArray(job.folder / CELLS, "<i8", 3) as cells, job.progress("reading", total) as advance:
            for path in shards:
                for piece in reader.read(path):
                    self._require_one_kind(piece, cells.length)
                    own = self._hashes(piece) if piece.ids is None else self._numbers(piece, piece.ids)
                    for note in header_note(own, piece.first()) if piece.may_be_header else ():
                        log.warning("%s: %s", path.name, note)
                    cells.append(own)
                advance(path.stat().st_size)
        self.rows = cells.length
        if not self.rows:
            raise DataError("no triples here", shards[0])

    def number(self) -> Sizes:
        """Write the vocabularies."""
        if self.numbers is not None:
            return self.numbers
        sizes = []
        with self.job.progress("numbering", len(self.builders)) as advance:
            for builder in self.builders.values():
                sizes.append(builder.finish(self.job.folder))
                advance(1)
        return Sizes(*sizes)

    def _require_one_kind(self, piece: Piece, rows: int) -> None:
        if rows and (piece.ids is None) != (self.numbers is None):
            here, before = ("labels", "whole numbers") if piece.ids is None else ("whole numbers", "labels")
            raise piece.place.error(f"{here} here, but {before} in an earlier shard; give all shards one kind")

    def _hashes(self, piece: Piece) -> NDArray[np.int64]:
        from staypositive.graph.on_disk import kernels

        assert piece.labels is not None
        cells = np.empty((len(piece.labels[0].starts), 3), dtype=np.int64)
        hashes, checks = np.empty((2, len(cells)), dtype=np.int64)
        for kind, columns in COLUMNS.items():
            for column in columns:
                labels = piece.labels[column]
                blank = kernels.hash_labels(labels.data, labels.starts, labels.lengths, hashes, checks)
                if blank >= 0:
                    raise piece.refuse_blank(column, blank)
                self.builders[kind].add(labels, hashes, checks)
                cells[:, column] = hashes
        return cells

    def _numbers(self, piece: Piece, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        wrong = np.argwhere((ids < 0) | (ids > LARGEST_NUMBER))
        if len(wrong):
            row, column = wrong[0].tolist()
            said = f"is {ids[row, column]}; numbers are ids from 0 to {LARGEST_NUMBER}. Give other ones as text"
            raise piece.refuse(column, row, said)
        head, relation, tail = (ids.max(0) + 1).tolist()
        known = self.numbers or Sizes(0, 0)
        self.numbers = Sizes(max(known.entities, head, tail), max(known.relations, relation))
        return ~ids
