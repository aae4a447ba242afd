"""Folders of splits, whatever the kind of their files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from staypositive.errors import DataError
from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, assemble
from staypositive.graph.labelled import Encoder, LabelledTriples, Signs, Weights
from staypositive.graph.readers.opening import PACKED
from staypositive.graph.readers.options import TableOptions
from staypositive.graph.readers.registry import READERS, read_file
from staypositive.graph.readers.terms import RdfTerms


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
    files = {split: _find(folder, split) for split in SPLITS}
    missing = [split for split, path in files.items() if path is None]
    if missing:
        raise DataError(
            f"no file for {' and '.join(missing)}; expected train.txt, valid.txt and test.txt (or .tsv, .csv, "
            ".parquet, .nt, .ttl, ...; .gz). To let staypositive split one file, give the file itself",
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
    joined = {split: join(own, [path.name for path in paths[split]]) for split, own in found.items()}
    return assemble(name, joined, [part.source for part in parts], notes)


def require_facts(part: LabelledTriples) -> None:
    """Refuse triples for training of which one is labelled false."""
    if part.signs is not None and (part.signs < 0).any():
        first = int(np.flatnonzero(part.signs < 0)[0])
        triple = " ".join(part.triple(first))
        raise part.error(f"training uses facts alone, but `{triple}` is labelled -1; move it to valid or test", first)


def join(parts: Sequence[LabelledTriples], names: Sequence[str]) -> LabelledTriples:
    """Return several files of one split as one."""
    if len(parts) == 1 and "_negatives" not in names[0]:
        return parts[0]
    encoder = Encoder(parts[0].place)
    for part, name in zip(parts, names, strict=True):
        encoder.add(part.columns, part.lines, _signs(part, name), _weights(part, parts))
    return encoder.finish(parts[0].source)


def _signs(part: LabelledTriples, name: str) -> Signs:
    default = -1 if "_negatives" in name else 1
    return np.full(len(part), default, dtype=np.int8) if part.signs is None else part.signs


def _weights(part: LabelledTriples, parts: Sequence[LabelledTriples]) -> Weights | None:
    if all(each.weights is None for each in parts):
        return None
    return np.ones(len(part), dtype=np.float32) if part.weights is None else part.weights


def _find(folder: Path, stem: str) -> Path | None:
    names = [f"{stem}{suffix}{packed}" for suffix in READERS for packed in ("", *PACKED)]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        raise DataError(f"both {found[0].name} and {found[1].name} are here; keep one", folder)
    return found[0] if found else None
