"""The first two passes: labels become hashes, those not seen before are put aside, and get ids by their hashes.

Ids follow the hashes of the labels. That order depends on the labels only, neither on files nor on memory; a label
is found by a search in the sorted hashes; and any range of ids is a fair sample of the entities, so that tables cut
by range are balanced. A vocabulary need not fit in memory: it is put aside by hash, and sorted part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.files import sha256_file
from staypositive.graph.labelled import SKIP_HINT, Source
from staypositive.graph.on_disk.shards import Labels, Piece, read_pieces
from staypositive.graph.on_disk.storage import CELLS, COLUMNS, GrowingArray, Job, Sizes, Spill
from staypositive.graph.on_disk.vocabulary import hash_texts
from staypositive.graph.readers.columns import TableOptions, describe, header_note, log
from staypositive.graph.readers.text import Layout

LARGEST_NUMBER = 2**31 - 2
PARTS = 256
HASH_BITS = 63
SMALLEST_FILTER = 1 << 12


class Reading:
    """All triples as cells in a file, and the labels they have."""

    def __init__(self, job: Job, shards: Sequence[Path], options: TableOptions) -> None:
        self.job, self.options = job, options
        self.sources: list[Source] = []
        self.numbers: Sizes | None = None
        """The sizes, where whole numbers are ids as they are."""
        shares = {"entity": job.memory // 2, "relation": job.memory // 16}
        self._builders = {kind: VocabularyBuilder(kind, job.folder, share) for kind, share in shares.items()}
        self._missing, _ = hash_texts(options.na)
        self._told: Layout | None = None
        total = sum(path.stat().st_size for path in shards)
        with GrowingArray(job.folder / CELLS, "<i8", 3) as cells, job.progress("reading", total) as advance:
            for path in shards:
                try:
                    self._read(path, cells)
                except OSError as error:
                    raise DataError(f"cannot be read: {error.strerror or error}", path) from error
                advance(path.stat().st_size)
        self.rows = cells.length
        if not self.rows:
            raise DataError("no triples here", shards[0])

    def number(self) -> Sizes:
        if self.numbers is not None:
            return self.numbers
        sizes = []
        with self.job.progress("numbering", len(self._builders)) as advance:
            for builder in self._builders.values():
                sizes.append(builder.finish(self.job.folder))
                advance(1)
        return Sizes(*sizes)

    def _read(self, path: Path, cells: GrowingArray) -> None:
        name, before, left_out = path.name, cells.length, 0
        for piece in read_pieces(path, self.options, self.job.piece):
            if cells.length and (piece.ids is None) != (self.numbers is None):
                here, then = ("labels", "whole numbers") if piece.ids is None else ("whole numbers", "labels")
                raise piece.place.error(f"{here} here, but {then} in an earlier shard; give all shards one kind")
            found, keep = self._hashes(piece) if piece.ids is None else self._numbers(piece, piece.ids)
            left_out += piece.left_out + len(keep) - len(found)
            if not len(found):
                continue
            triple, layout = piece.triple(int(keep.argmax())), piece.layout
            if cells.length == before:
                if layout is not None and layout != self._told:  # the shard before had another
                    log.info("%s: %s", name, describe(layout.names, layout.places, triple))
                self._told = layout
            for note in header_note(found, triple) if piece.may_be_header and keep.all() else ():
                log.warning("%s: %s", name, note)
            cells.append(found)
        for note in self.options.note(left_out):
            log.warning("%s: %s", name, note)
        self.sources.append(Source(name, sha256_file(path), cells.length - before))

    def _hashes(self, piece: Piece) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the hashes of the labels, shape (rows, 3), and which rows of the piece were kept."""
        from staypositive.graph.on_disk import kernels

        assert piece.labels is not None
        hashes, checks = np.empty((2, 3, len(piece.labels[0].starts)), dtype=np.int64)
        for column, own in enumerate(piece.labels):
            kernels.hash_labels(own.data, own.starts, own.lengths, hashes[column], checks[column])
        keep = np.ones(hashes.shape[1], dtype=np.bool_)
        if len(self._missing):
            keep &= ~np.isin(hashes, self._missing).any(0)
        blank = hashes < 0
        if self.options.skip_blank:
            keep &= ~blank.any(0)
        elif (blank & keep).any():
            row, column = np.argwhere((blank & keep).T)[0].tolist()
            raise piece.error(column, row, f"is empty{SKIP_HINT}")
        rows = slice(None) if keep.all() else keep
        for kind, columns in COLUMNS.items():
            for column in columns:
                own = piece.labels[column]
                labels = Labels(own.data, own.starts[rows], own.lengths[rows])
                self._builders[kind].add(labels, hashes[column][rows], checks[column][rows])
        return hashes[:, rows].T, keep

    def _numbers(self, piece: Piece, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        wrong = np.argwhere((ids < 0) | (ids > LARGEST_NUMBER))
        if len(wrong):
            row, column = wrong[0].tolist()
            said = f"is {ids[row, column]}; numbers are ids from 0 to {LARGEST_NUMBER}. Give other ones as text"
            raise piece.error(column, row, said)
        if len(ids):
            head, relation, tail = (ids.max(0) + 1).tolist()
            known = self.numbers or Sizes(0, 0)
            self.numbers = Sizes(max(known.entities, head, tail), max(known.relations, relation))
        return ~ids, np.ones(len(ids), dtype=np.bool_)


class VocabularyBuilder:
    """Takes labels as they come, then numbers them; `memory` bounds what it remembers of labels already seen."""

    def __init__(self, kind: str, folder: Path, memory: int) -> None:
        self.kind = kind
        slots = 1 << ((memory // 32).bit_length() - 1)  # half of the memory for the filter, 16 bytes per label
        self.filter = np.full((max(SMALLEST_FILTER, slots), 2), -1, dtype=np.int64)
        self.known = Spill(folder, f"{kind}-keys", PARTS, memory // 8)
        self.blobs = Spill(folder, f"{kind}-labels", PARTS, memory // 8)

    def add(self, labels: Labels, hashes: NDArray[np.int64], checks: NDArray[np.int64]) -> None:
        """Keep the labels that were not seen lately."""
        from staypositive.graph.on_disk import kernels

        found = np.empty(len(hashes), dtype=np.int64)
        found = found[: kernels.unseen(hashes, checks, self.filter, found)]
        if len(found):
            order, ends = grouped(hashes[found] >> (HASH_BITS - PARTS.bit_length() + 1), PARTS)
            rows = found[order]
            own = labels.take(rows)
            self.known.put(np.column_stack([hashes[rows], checks[rows], own.lengths]), ends)
            edges = np.append(own.starts, len(own.data))
            self.blobs.put(own.data, edges[ends])

    def finish(self, folder: Path) -> int:
        """Write hashes, offsets and labels in the order of the ids; return how many there are."""
        self.filter = self.filter[:0]
        with (
            GrowingArray(folder / f"{self.kind}-hashes.npy", "<i8") as hashes,
            GrowingArray(folder / f"{self.kind}-offsets.npy", "<i8") as offsets,
            (folder / f"{self.kind}-labels.utf8").open("wb") as blob,
        ):
            offsets.append(np.zeros(1, dtype=np.int64))
            total = 0
            for part in range(PARTS):
                keys = self.known.take(part, np.int64).reshape(-1, 3)
                labels = self._sorted(keys, self.blobs.take(part, np.uint8), hashes)
                offsets.append(total + labels.starts + labels.lengths)
                blob.write(labels.data.data)
                total += len(labels.data)
        return hashes.length

    def _sorted(self, keys: NDArray[np.int64], blob: NDArray[np.uint8], hashes: GrowingArray) -> Labels:
        """Append the distinct hashes of a part, ascending; return their labels."""
        order = np.argsort(keys[:, 0])
        sorted_keys = keys[order]
        again = np.zeros(len(keys), dtype=bool)
        again[1:] = sorted_keys[1:, 0] == sorted_keys[:-1, 0]
        labels = Labels(blob, np.cumsum(keys[:, 2]) - keys[:, 2], keys[:, 2])
        unlike = np.flatnonzero(again & (sorted_keys[:, 1] != np.roll(sorted_keys[:, 1], 1)))
        if len(unlike):
            first, second = (labels.text(row) for row in order[unlike[0] - 1 : unlike[0] + 1])
            raise DataError(f"{first!r} and {second!r} have the same hash of {HASH_BITS} bits; rename one of them")
        hashes.append(sorted_keys[~again, 0])
        return labels.take(order[~again])


def grouped(parts: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order that brings rows of one part together, and where each part ends in it."""
    narrow = parts.astype(np.uint16 if count <= 1 << 16 else np.int64)  # two bytes are sorted without comparisons
    return np.argsort(narrow, kind="stable"), np.cumsum(np.bincount(parts, minlength=count))
