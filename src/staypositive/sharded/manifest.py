"""What the manifest of a sharded checkpoint says, checked before it is believed: anybody may have written it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staypositive.files import sha256_bytes
from staypositive.run.checking import parsed, read_plain
from staypositive.run.folder import records_of
from staypositive.run.sealed_folder import to_json
from staypositive.training import EpochRecord
from staypositive.typed import misfit_of

FORMAT = 1
MANIFEST = "manifest.json"
MOST_MANIFEST = 2**28
"""Bytes of a manifest, which holds the whole history."""


@dataclass(frozen=True)
class Progress:
    """How far a training has come, as its manifest says."""

    steps: int
    optimiser_steps: int
    best_epoch: int
    history: tuple[EpochRecord, ...]

    @classmethod
    def read(cls, stated: dict[str, Any]) -> Progress:
        """Return what JSON states; `KeyError`, `TypeError` or `ValueError` where it does not."""
        found = cls(**stated | {"history": records_of(stated["history"])})
        if wrong := misfit_of(found):
            raise ValueError(wrong)
        if not 0 <= found.best_epoch <= len(found.history):
            raise ValueError(f"the best of {len(found.history)} epochs cannot be number {found.best_epoch}")
        if found.steps < 0 or found.optimiser_steps not in (0, found.steps):
            raise ValueError(f"{found.steps} steps do not go with {found.optimiser_steps} of the optimiser")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return what `read` reads."""
        return vars(self) | {"history": [vars(record) for record in self.history]}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a manifest; `ValueError` where it does not have the hash that it states."""
    manifest = parsed(read_plain(folder / MANIFEST, MOST_MANIFEST))
    if not isinstance(manifest, dict) or manifest.pop("sha256", None) != hash_of(manifest):
        raise ValueError("its contents do not have the hash that it states")
    return manifest


def hash_of(manifest: dict[str, Any]) -> str:
    """Return the hash that a manifest states of itself."""
    return sha256_bytes(to_json(manifest))
