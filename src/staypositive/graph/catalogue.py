"""Named datasets: the address, SHA-256 and size of every file, fetched once and checked each time.

`STAYPOSITIVE_MIRROR` may name a folder that holds the same files as `NAME/FILE`; they are read from there, checked
as strictly, and nothing is downloaded. `STAYPOSITIVE_CACHE` moves the download cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from staypositive.errors import DownloadError, InputError
from staypositive.files import cache_folder, sha256_file
from staypositive.graph.encoded import cached
from staypositive.graph.folders import read_folder, read_splits
from staypositive.graph.knowledge_graph import KnowledgeGraph
from staypositive.graph.quality import drop_unseen
from staypositive.graph.readers import TableOptions
from staypositive.toml import parse_toml

MIRROR_VARIABLE = "STAYPOSITIVE_MIRROR"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a dataset: its name, pinned hash and number of triples."""

    name: str
    sha256: str
    rows: int

    @property
    def split(self) -> str:
        return self.name.split(".")[0].removesuffix("_negatives")


@dataclass(frozen=True)
class Dataset:
    """A named dataset; `counts` are of entities, relations and the triples of each split, as loaded.

    `base` names the dataset that it is derived from by the paper's cleaning rule.
    """

    name: str
    about: str
    counts: dict[str, int]
    address: str = ""
    files: tuple[RemoteFile, ...] = ()
    base: str = ""

    def load(self) -> KnowledgeGraph:
        if self.base:
            return drop_unseen(find_dataset(self.base).load(), name=self.name)
        if not self.files:
            return read_folder(Path(__file__).parent / "geo", header=False, name=self.name)
        paths = self.fetch_all()
        made_from = [self.name, *(file.sha256 for file in self.files)]
        return cached(cache_folder() / "encoded", made_from, lambda: self.parse(paths))

    def fetch_all(self) -> dict[str, list[Path]]:
        paths: dict[str, list[Path]] = {}
        for file in self.files:
            paths.setdefault(file.split, []).append(self.fetch(file))
        return paths

    def parse(self, paths: dict[str, list[Path]]) -> KnowledgeGraph:
        """Read the graph from its files, whatever the cache has."""
        return read_splits(paths, self.name, TableOptions(header=False))

    def fetch(self, file: RemoteFile) -> Path:
        """Return a checked local copy of one file: the mirror's, the cache's, or a fresh download."""
        if mirror := os.environ.get(MIRROR_VARIABLE):
            path = Path(mirror) / self.folder / file.name
            if not path.is_file():
                said = f"the mirror in {MIRROR_VARIABLE} has no {path}; unset the variable to download it"
                raise DownloadError(said)
            if (found := sha256_file(path)) != file.sha256:
                raise DownloadError(f"{path} is not the pinned file: expected SHA-256 {file.sha256}, found {found}")
            return path
        import pooch

        url, folder = f"{self.address}/{file.name}", cache_folder() / self.folder
        try:
            # pooch writes to a temporary file, checks its hash and only then gives it the final name.
            return Path(pooch.retrieve(url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=folder))
        except Exception as error:  # pooch passes on whatever its transport raises
            hint = f"Check the connection, or set {MIRROR_VARIABLE} to a folder that has it"
            raise DownloadError(f"could not fetch {url}: {error}. {hint}") from error

    @property
    def folder(self) -> str:
        """The folder of the files in the cache and in a mirror: the last part of the address."""
        return self.address.rsplit("/", 1)[-1]


def find_dataset(name: str) -> Dataset:
    if name.casefold() not in CATALOGUE:
        known = ", ".join(dataset.name for dataset in CATALOGUE.values())
        raise InputError(f"no dataset is called {name!r}; known: {known}")
    return CATALOGUE[name.casefold()]


CATALOGUE: dict[str, Dataset] = {
    table["name"].casefold(): Dataset(**table | {"files": tuple(RemoteFile(*f) for f in table.get("files", ()))})
    for table in parse_toml(Path(__file__).with_suffix(".toml").read_text("utf-8"))["dataset"]
}
"""Every named dataset, by its name in lower case; `catalogue.toml` states them."""
