"""The folder of a streamed graph: made beside its place, moved there when whole, every file named with its hash."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from staypositive.errors import DataError, InputError
from staypositive.files import sha256_bytes, sha256_file, write_atomic
from staypositive.graph.knowledge_graph import Source
from staypositive.typed import fits

FORMAT = 1
MANIFEST = "streamed.json"
SHAPE = {
    "format": int, "name": str, "fingerprint": str, "labels": str, "sha256": str, "counts": dict[str, int],
    "files": dict[str, dict[str, Any]], "sources": Sequence[dict[str, Any]],
}  # fmt: skip
"""What the manifest holds."""
MARK = "ingesting"
"""A file that says a folder is of an ingestion not yet done, and may be cleared by the next."""


def require_kernels() -> None:
    """Say how to get numba, which hashes and encodes labels."""
    if importlib.util.find_spec("numba") is None:
        raise InputError("streamed graphs need numba: pip install 'staypositive[fast]'")


def is_streamed(folder: Path) -> bool:
    """Return whether a folder holds a streamed graph."""
    return (folder / MANIFEST).is_file()


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
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(folder.iterdir())
        if path.name != MARK
    }
    about = {
        "format": FORMAT,
        "name": name,
        "fingerprint": sha256_bytes(_json({name: entry["sha256"] for name, entry in files.items()})),
        "labels": "numbers" if are_numbers else "text",
        "counts": counts,
        "files": files,
        "sources": [vars(source) for source in sources],
    }
    write_atomic(folder / MANIFEST, _json(about | {"sha256": sha256_bytes(_json(about))}))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check every file against it."""
    path = folder / MANIFEST
    try:
        about: dict[str, Any] = json.loads(path.read_text("utf-8"))
        odd = [name for name, kind in SHAPE.items() if not fits(about[name], kind)]
        found, stated, files = about["format"], about.pop("sha256"), about["files"]
    except FileNotFoundError:
        raise DataError(f"no streamed graph here (no {MANIFEST}); `staypositive ingest` makes one", folder) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"damaged: {type(error).__name__}: {error}", path) from None
    if odd:
        raise DataError(f"damaged: {odd[0]} is not of its kind", path)
    if found > FORMAT:
        raise DataError(f"format {found}; this staypositive reads up to {FORMAT}. Upgrade it", path)
    if stated != sha256_bytes(_json(about)):
        raise DataError("damaged: its contents do not have the hash that it states", path)
    for name, entry in files.items():
        if Path(name).name != name:
            raise DataError(f"damaged: it names a file outside its folder, {name!r}", path)
        if not (folder / name).is_file():
            raise DataError("missing, though the manifest names it; ingest again", folder / name)
        if sha256_file(folder / name) != entry.get("sha256"):
            said = f"damaged: expected {entry.get('bytes')} bytes of SHA-256 {entry.get('sha256')}"
            raise DataError(said, folder / name)
    return about | {"sha256": stated}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8")
