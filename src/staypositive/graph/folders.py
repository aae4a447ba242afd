"""Folders of train, valid and test: read from files of any kind, written for any tool."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from staypositive.errors import DataError, InputError
from staypositive.files import write_atomic
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Split, assemble
from staypositive.graph.labelled import Encoder, LabelledTriples, require_facts
from staypositive.graph.readers import PACKED, READERS, RdfTerms, TableOptions, looks_like_header, read_file


def read_folder(
    folder: str | os.PathLike[str],
    header: bool | None = None,
    name: str | None = None,
    terms: RdfTerms | None = None,
    options: TableOptions | None = None,
) -> KnowledgeGraph:
    """Read a folder of train, valid and test files, of any kind that a single file may be.

    Valid and test may carry a column of 1 or -1, or keep their false triples in `*_negatives` files. `options` say
    more about tables than `header` does, and take its place.
    """
    folder = Path(folder)
    paths = {split: _find(folder, split, f"{split}_negatives") for split in SPLITS}
    missing = [split for split in SPLITS if not _find(folder, split)]
    if missing:
        raise DataError(
            f"no file for {' and '.join(missing)}; expected train.txt, valid.txt and test.txt (or .tsv, .csv, "
            ".parquet, .nt, .ttl, ...; .gz). To let staypositive split one file, give the file itself",
            folder,
        )
    if len(paths["train"]) > 1:
        said = "training uses facts alone; remove train_negatives, or share it out to valid and test"
        raise DataError(said, folder)
    return read_splits(paths, name or folder.resolve().name, options or TableOptions(header), terms)


def read_splits(
    paths: dict[str, list[Path]], name: str, options: TableOptions, terms: RdfTerms | None = None
) -> KnowledgeGraph:
    """Read a graph from the files of each split; a file called `*_negatives*` holds false triples."""
    found = {
        split: [read_file(path, options, terms, scope=f"{path.name.split('.')[0]}-") for path in files]
        for split, files in paths.items()
    }
    for part in found.get("train", ()):
        require_facts(part)
    parts = [part for split in found.values() for part in split]
    notes = [f"{part.source.name}: {note}" for part in parts for note in part.remarks]
    joined = {split: _join(own, [path.name for path in paths[split]]) for split, own in found.items()}
    return assemble(name, joined, [part.source for part in parts], notes)


def _join(parts: Sequence[LabelledTriples], names: Sequence[str]) -> LabelledTriples:
    if len(parts) == 1 and "_negatives" not in names[0]:
        return parts[0]
    encoder = Encoder(parts[0].place)
    have_weights = any(part.weights is not None for part in parts)
    for part, name in zip(parts, names, strict=True):
        sign = -1 if "_negatives" in name else 1
        signs = np.full(len(part), sign, dtype=np.int8) if part.signs is None else part.signs
        weights = np.ones(len(part), dtype=np.float32) if part.weights is None and have_weights else part.weights
        encoder.add(part.columns, part.lines, signs, weights)
    return encoder.finish(parts[0].source.name)


def _find(folder: Path, *stems: str) -> list[Path]:
    files = []
    for stem in stems:
        names = [f"{stem}{suffix}{packed}" for suffix in READERS for packed in ("", *PACKED)]
        found = [folder / name for name in names if (folder / name).is_file()]
        if len(found) > 1:
            raise DataError(f"both {found[0].name} and {found[1].name} are here; keep one", folder)
        files += found
    return files


def write_folder(graph: KnowledgeGraph, folder: str | os.PathLike[str]) -> Path:
    """Write train.txt, valid.txt and test.txt; a split with labels gets a fourth column of 1 and -1.

    A split with weights gets a column called confidence, and a header that says so.
    """
    for label in (*graph.entities, *graph.relations):
        if any(mark in label for mark in "\t\n\0") or label.endswith("\r"):
            said = f"the label {label!r} holds a tab or a line end (or NUL), which this format cannot carry"
            raise InputError(said)
    if empty := [name for name in SPLITS if len(graph.split(name)) == 0]:
        raise InputError(f"{graph.name} has no triples in {' and '.join(empty)}; an empty file would not be readable")
    folder = Path(folder)
    if others := sorted(path.name for path in folder.glob("*")):
        said = f"{folder} is not empty ({others[0]}, ...); give a new folder, so that nothing is lost or mixed"
        raise InputError(said)
    for name in SPLITS:
        text = "".join("\t".join(row) + "\n" for row in _rows(graph, graph.split(name)))
        mark = "\ufeff" if text.startswith("\ufeff") else ""  # readers take the first one for a byte order mark
        write_atomic(folder / f"{name}.txt", mark + text)
    return folder


def _rows(graph: KnowledgeGraph, split: Split) -> Iterator[list[str]]:
    """Yield the rows of a split; a header where its columns, or what its first triple looks like, need one."""
    stated = {"label": split.labels, "confidence": split.weights}
    extra = {name: values.tolist() for name, values in stated.items() if values is not None}
    triples = graph.labelled(split.triples)
    if split.weights is not None or looks_like_header(triples[0]):
        yield ["head", "relation", "tail", *extra]
    for triple, *cells in zip(triples, *extra.values(), strict=True):
        yield [*triple, *map(str, cells)]
