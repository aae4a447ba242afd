"""The passes of an ingestion: labels become hashes, hashes ids, and triples are sorted, once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.files import sha256_file
from staypositive.graph.labelled import SKIP_HINT, Source
from staypositive.graph.on_disk import kernels
from staypositive.graph.on_disk.shards import Labels, Piece, read_pieces
from staypositive.graph.on_disk.storage import CELLS, KINDS, GrowingArray, Job, Sizes, Spill, StoredArray
from staypositive.graph.on_disk.vocabulary import VocabularyBuilder, grouped, hash_texts
from staypositive.graph.readers.columns import TableOptions, describe, header_note, log
from staypositive.graph.readers.text import Layout

LARGEST_NUMBER = 2**31 - 2


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
        for kind, own, *numbers in zip(KINDS, piece.labels, hashes, checks, strict=True):
            labels = Labels(own.data, own.starts[rows], own.lengths[rows])
            self._builders[kind].add(labels, *(each[rows] for each in numbers))
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


def encode(job: Job, sizes: Sizes) -> Spill:
    """Turn all cells into ids; return the triples by part, a part being a range of their keys.

    Where the sorted hashes do not fit in memory, they are taken slice by slice, each in a pass over all cells.
    """
    path = job.folder / CELLS
    stored = StoredArray(path)
    parts = 1 << (len(stored) * 192 // job.memory).bit_length()  # 12 bytes each; sorting takes ten times a part
    spill = Spill(job.folder, "triples", parts, job.memory // 8)
    slices, step = list(_slices(job, sizes)), max(1, job.piece // 24)
    with job.progress("encoding", len(stored) * len(slices)) as advance:
        for number, own in enumerate(slices, 1):
            lookups = [_lookup(*each) for each in own]
            for first in range(0, len(stored), step):
                cells = stored.read(first, first + step)
                for lookup in lookups:
                    lookup(cells)
                if number < len(slices):
                    with path.open("r+b") as stream:
                        stream.seek(stored.offset + first * 24)
                        stream.write(cells.data)
                else:
                    _put_aside(~cells, sizes, spill)
                advance(len(cells))
    path.unlink()
    return spill


def _slices(job: Job, sizes: Sizes) -> Iterator[list[tuple[str, StoredArray, int, int]]]:
    """Yield what is looked up in one pass: of each kind, which of its sorted hashes."""
    paths = {kind: job.folder / f"{kind}-hashes.npy" for kind in KINDS}
    stored = [(kind, StoredArray(path)) for kind, path in paths.items() if path.exists()]
    room = job.memory // 4 // 24  # a hash and up to two buckets each
    for first in range(0, max(sizes) if stored else 1, room):
        yield [(kind, own, first, min(first + room, len(own))) for kind, own in stored if first < len(own)]


def _lookup(kind: str, stored: StoredArray, first: int, last: int) -> Callable[[NDArray[np.int64]], None]:
    """Return what replaces the hashes of a slice by inverted ids: buckets by first bits, a short walk in each."""
    hashes = stored.read(first, last)
    span = int(hashes[-1] - hashes[0])
    shift = max(0, span.bit_length() - (last - first).bit_length())
    starts = np.zeros((span >> shift) + 2, dtype=np.int64)
    np.cumsum(np.bincount((hashes - hashes[0]) >> shift), out=starts[1:])

    def encode_cells(cells: NDArray[np.int64]) -> None:
        for column, own in enumerate(KINDS):
            if own == kind:
                kernels.encode_cells(cells, column, hashes, starts, shift, first)

    return encode_cells


def _put_aside(triples: NDArray[np.int64], sizes: Sizes, spill: Spill) -> None:
    bits = len(spill).bit_length() - 1
    parts = hash_triples(triples, sizes) >> np.uint64(1) >> np.uint64(63 - bits)  # no shift by 64 bits
    order, ends = grouped(parts.astype(np.int64), len(spill))
    spill.put(triples[order].astype(sizes.dtype), ends)


def hash_triples(triples: NDArray[Any], sizes: Sizes) -> NDArray[np.uint64]:
    """Return a hash of each triple, another for each while |E|²|R| stays below 2^64."""
    keys = np.empty(len(triples), dtype=np.uint64)
    kernels.hash_triples(triples, *sizes, keys)
    return keys


def sort(job: Job, spill: Spill, sizes: Sizes, hold_out: int) -> dict[str, int]:
    """Write train, valid and test; return how many each has, and how many entities and relations no triple has.

    The first triples by key are held out, unless that would leave an entity or a relation without any in train.
    """
    bits = [np.zeros(size // 8 + 1, dtype=np.uint8) for size in sizes]
    held = np.empty((0, 3), dtype=sizes.dtype)
    with GrowingArray(job.folder / "train.npy", sizes.dtype, 3) as train:
        with job.progress("sorting", len(spill)) as advance:
            for part in range(len(spill)):
                triples = _distinct(spill.take(part, sizes.dtype).reshape(-1, 3), sizes)
                more = 2 * hold_out - len(held)
                held, triples = np.concatenate([held, triples[:more]]), triples[more:]
                kernels.mark(triples, *bits)
                train.append(triples)
                advance(1)
        half = (train.length + len(held)) // 2  # of more, nothing would be left to learn from
        held, back = held[:half], held[half:]
        kernels.mark(back, *bits)
        train.append(back)
        seen = _are_marked(bits[0], held[:, [0, 2]]).all(1) & _are_marked(bits[1], held[:, 1])
        train.append(held[~seen])
    kernels.mark(held[~seen], *bits)
    valid, test = np.array_split(held[seen], 2)
    np.save(job.folder / "valid.npy", valid, allow_pickle=False)
    np.save(job.folder / "test.npy", test, allow_pickle=False)
    used = (int.from_bytes(own.tobytes(), "little").bit_count() for own in bits)
    entities, relations = (size - count for size, count in zip(sizes, used, strict=True))
    held_out = {"valid": len(valid), "test": len(test)}
    return {"train": train.length, **held_out, "unused_entities": entities, "unused_relations": relations}


def _distinct(triples: NDArray[Any], sizes: Sizes) -> NDArray[Any]:
    keys = hash_triples(triples, sizes)
    order = np.argsort(keys)
    keys, triples = keys[order], triples.take(order, axis=0)
    alike = np.flatnonzero(keys[1:] == keys[:-1])
    copies = alike[(triples[alike] == triples[alike + 1]).all(1)]
    return np.delete(triples, copies, axis=0) if len(copies) else triples


def _are_marked(bits: NDArray[np.uint8], ids: NDArray[Any]) -> NDArray[np.bool_]:
    marked: NDArray[np.bool_] = (bits[ids >> 3] >> (ids & 7).astype(np.uint8) & 1).astype(bool)
    return marked
