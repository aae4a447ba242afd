"""Graphs larger than memory: shards become ids and labels on disk, from which training streams.

`ingest` makes four passes, each a stream: *reading* turns labels into hashes and puts new labels aside; *numbering*
sorts the labels; *encoding* turns hashes into ids; *sorting* puts triples in the order of a hash of each. That order
is a random one, and the same whatever the order of the files; copies of a triple meet in it, and all but one are
dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from staypositive.errors import SettingError
from staypositive.graph.on_disk.graph import StreamedGraph, new_folder, open_streamed, require_numba, write_manifest
from staypositive.graph.on_disk.storage import Job, Progress, StoredArray, silent
from staypositive.graph.readers import ColumnNames, TableOptions

__all__ = ["Progress", "StoredArray", "ingest", "parse_size", "silent"]

LEAST_MEMORY = 1 << 27
_UNITS = {"KB": 10, "MB": 20, "GB": 30, "TB": 40}


def ingest(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    memory: int = 2 << 30,
    hold_out: int = 0,
    header: bool | None = None,
    columns: ColumnNames | None = None,
    skip_blank: bool = False,
    na: str | Iterable[str] = (),
    name: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> StreamedGraph:
    """Turn shards (files, patterns or folders of TSV, Parquet or .npy) into a folder that training streams from.

    `memory` bounds what the work takes, in bytes, beside what Python and its libraries do. Text labels get ids by
    the order of their hashes; whole numbers are ids as they are. `hold_out` triples each go to valid and to test,
    drawn by hash, unless train would lose an entity or relation by it. The folder appears whole or not at all.
    `header`, `columns`, `skip_blank` and `na` are as in `load_graph`, and apply to each shard of text or Parquet.
    """
    options = TableOptions.of(header, columns, skip_blank, na)
    if memory < LEAST_MEMORY:
        raise SettingError(f"memory must be at least {LEAST_MEMORY >> 20} MB, got {memory >> 20} MB")
    if hold_out < 0:
        raise SettingError(f"hold_out must not be negative, got {hold_out}")
    require_numba()
    from staypositive.graph.on_disk import passes
    from staypositive.graph.on_disk.shards import find_shards

    shards = find_shards([files] if isinstance(files, str | os.PathLike) else files)
    with new_folder(Path(out), force) as folder:
        job = Job(folder, memory, progress or silent)
        reading = passes.Reading(job, shards, options)
        sizes = reading.number()
        counts = sizes._asdict() | passes.sort(job, passes.encode(job, sizes), sizes, hold_out)
        counts["copies_dropped"] = reading.rows - sum(counts[split] for split in ("train", "valid", "test"))
        labels = "text" if reading.numbers is None else "numbers"
        about = {"name": name or Path(out).resolve().name, "labels": labels, "counts": counts}
        write_manifest(folder, about, reading.sources)
    return open_streamed(out)


def parse_size(text: str) -> int:
    """Return a size in bytes.

    >>> parse_size("2GB"), parse_size("1.5 MB")
    (2147483648, 1572864)
    """
    number, unit = text.strip()[:-2], text.strip()[-2:].upper()
    try:
        return int(float(number) * (1 << _UNITS[unit]))
    except (KeyError, ValueError, OverflowError):
        raise SettingError(f"expected a size such as 512MB or 2GB, got {text!r}") from None
