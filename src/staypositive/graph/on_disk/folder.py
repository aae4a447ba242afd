"""The folder of a streamed graph: made beside its place, moved there when whole, every file named with its hash."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError, RunError
from staypositive.files import sha256_bytes, to_json
from staypositive.graph.knowledge_graph import Source
from staypositive.sealed_folder import FolderKind, entry_of, fault
from staypositive.typed import fits

STREAMED = FolderKind(
    name="streamed graph",
    manifest="streamed.json",
    format=1,
    how_to_make="`staypositive ingest` makes one",
    more=r".+",
    most=2**28,  # it names all that was read
)
MANIFEST, is_streamed = STREAMED.manifest, STREAMED.is_in
SHAPE = {
    "name": str, "fingerprint": str, "labels": str, "counts": dict[str, int], "sources": Sequence[dict[str, Any]],
}  # fmt: skip
"""What the manifest holds beside format, files and its own hash."""
MARK = "ingesting"
"""A file that says a folder is of an ingestion not yet done, and may be cleared by the next."""


def require_kernels() -> None:
    """Say how to get numba, which hashes and encodes labels."""
    if importlib.util.find_spec("numba") is None:
        raise InputError("streamed graphs need numba: pip install 'staypositive[fast]'")


@contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """Give a folder to work in, which takes its final name when all went well."""
    work = out.with_name(f"{out.name}.part")
    for path in (out, work):
        if path.is_symlink():
            raise InputError(f"{path} is a link, and linked folders are neither written to nor replaced; remove it")
    if is_streamed(out):
        if not force:
            raise InputError(f"{out} already holds a streamed graph; use --force to replace it, or another folder")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} holds other files; choose another folder")
    if work.exists() and not (work / MARK).exists():
        raise InputError(f"{work} is in the way, and is not of an ingestion cut short; move it")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / MARK).touch()
    try:
        yield work
        (work / MARK).unlink()
        if out.exists():
            shutil.rmtree(out)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def write_manifest(
    folder: Path, name: str, counts: dict[str, int], sources: Sequence[Source], are_numbers: bool
) -> None:
    """Name every file with its size and hash; the fingerprint is a hash of those, whatever the shards were."""
    files = {path.name: entry_of(path) for path in sorted(folder.iterdir()) if path.name != MARK}
    about = {
        "name": name,
        "fingerprint": sha256_bytes(to_json({name: entry["sha256"] for name, entry in files.items()})),
        "labels": "numbers" if are_numbers else "text",
        "counts": counts,
        "sources": [vars(source) for source in sources],
    }
    STREAMED.seal(folder, files, about)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check every file against it."""
    try:
        about = STREAMED.read_manifest(folder)
        odd = [name for name, kind in SHAPE.items() if not fits(about.get(name), kind)]
        if odd:
            raise RunError(f"{folder / MANIFEST} is damaged: {odd[0]} is not of its kind")
        for name, entry in about["files"].items():
            if wrong := fault(folder / name, entry):
                raise RunError(f"{folder / name} {wrong}; ingest again")
    except RunError as error:
        raise DataError(str(error)) from None
    return about
