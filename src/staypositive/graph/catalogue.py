"""Named datasets: the address, SHA-256 and size of every file, fetched once and checked each time.

`STAYPOSITIVE_MIRROR` may name a folder that holds the same files as `NAME/FILE`; they are read from there, checked
as strictly, and nothing is downloaded. `STAYPOSITIVE_CACHE` moves the download cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from staypositive.errors import DownloadError, InputError
from staypositive.files import sha256_file
from staypositive.graph.encoded import cached
from staypositive.graph.folders import read_folder, read_splits
from staypositive.graph.knowledge_graph import KnowledgeGraph
from staypositive.graph.quality import drop_unseen
from staypositive.graph.readers import TableOptions

MIRROR_VARIABLE = "STAYPOSITIVE_MIRROR"
CACHE_VARIABLE = "STAYPOSITIVE_CACHE"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a dataset: its name, the split it belongs to, its pinned hash and how many triples it has."""

    name: str
    sha256: str
    rows: int

    @property
    def split(self) -> str:
        return self.name.split(".")[0].removesuffix("_negatives")


@dataclass(frozen=True)
class Dataset:
    """A named dataset. `base` names the one it is derived from by the paper's cleaning rule."""

    name: str
    about: str
    counts: dict[str, int]
    """Entities, relations and triples of each split, as loaded."""
    address: str = ""
    files: tuple[RemoteFile, ...] = field(default=())
    base: str = ""

    def load(self) -> KnowledgeGraph:
        """Fetch what is missing, check it, and read the graph."""
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
        mirror = os.environ.get(MIRROR_VARIABLE)
        if not mirror:
            return _download(f"{self.address}/{file.name}", cache_folder() / self.folder, file)
        path = Path(mirror) / self.folder / file.name
        if not path.is_file():
            raise DownloadError(f"the mirror in {MIRROR_VARIABLE} has no {path}; unset the variable to download it")
        found = sha256_file(path)
        if found != file.sha256:
            raise DownloadError(f"{path} is not the pinned file: expected SHA-256 {file.sha256}, found {found}")
        return path

    @property
    def folder(self) -> str:
        """The folder of the files in the cache and in a mirror: the last part of the address."""
        return self.address.rsplit("/", 1)[-1]


def cache_folder() -> Path:
    """Return where downloads are kept: `STAYPOSITIVE_CACHE`, or the system's folder for caches."""
    import pooch

    return Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("staypositive"))


def find_dataset(name: str) -> Dataset:
    if name.casefold() not in CATALOGUE:
        known = ", ".join(dataset.name for dataset in CATALOGUE.values())
        raise InputError(f"no dataset is called {name!r}; known: {known}")
    return CATALOGUE[name.casefold()]


def _download(url: str, folder: Path, file: RemoteFile) -> Path:
    import pooch

    try:
        # pooch writes to a temporary file, checks its hash and only then gives it the final name.
        return Path(pooch.retrieve(url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=folder))
    except Exception as error:  # pooch passes on whatever its transport raises
        raise DownloadError(
            f"could not fetch {url}: {error}. Check the connection, or set {MIRROR_VARIABLE} to a folder that has it"
        ) from error


_STAYPOSITIVE = "BorealisAI/StayPositive/021538dc824e5aa9ed1cd18a13e2d6a83bdab55a/dataset"
_CODEX = "tsafavi/codex/3132e426c2a6b643b70bad679905a3a6270be440/data/triples"


def _published(name: str, about: str, sizes: tuple[int, int], folder: str, *files: tuple[str, str, int]) -> Dataset:
    """Return a dataset of files on GitHub, from its entities and relations and its files' names, hashes and rows."""
    found = tuple(RemoteFile(*file) for file in files)
    rows = {split: sum(file.rows for file in found if file.split == split) for split in ("train", "valid", "test")}
    counts = {"entities": sizes[0], "relations": sizes[1], **rows}
    return Dataset(name, about, counts, f"https://raw.githubusercontent.com/{folder}", found)


def _by_hand(name: str, about: str, counts: tuple[int, int, int, int, int], base: str = "") -> Dataset:
    names = ("entities", "relations", "train", "valid", "test")
    return Dataset(name, about, dict(zip(names, counts, strict=True)), base=base)


_DATASETS = (
    _by_hand(
        "geo",
        "countries, cities, currencies, languages and time zones (GeoNames, CC BY 4.0); inside the package",
        (5_198, 9, 21_414, 2_438, 2_438),
    ),
    _published(
        "WN18RR",
        "WordNet links without inverse leakage (Dettmers et al. 2018)",
        (40_943, 11),
        f"{_STAYPOSITIVE}/WN18RR",
        ("train.txt", "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df", 86_835),
        ("valid.txt", "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab", 3_034),
        ("test.txt", "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5", 3_134),
    ),
    _published(
        "FB15k-237",
        "Freebase links without inverse leakage (Toutanova and Chen 2015)",
        (14_541, 237),
        f"{_STAYPOSITIVE}/FB15k-237",
        ("train.txt", "6e4c2782169af21e9743f3b1d200886f5d595bf6bc504ec1351720949c5cdfae", 272_115),
        ("valid.txt", "cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c", 17_535),
        ("test.txt", "5711cf41623ceb4eacc50eb6108a3ca6565c7492e3caaf82a3e355cc660d1574", 20_466),
    ),
    _published(
        "WN11",
        "WordNet with labelled negatives in valid and test (Socher et al. 2013)",
        (38_588, 11),
        f"{_STAYPOSITIVE}/WN11",
        ("train.txt", "1a49d78c8bbd2285514f7aaa4d5c9390c1fbb4fdd7151013d8285b01420b4651", 112_581),
        ("valid.txt", "c98b66ad43717096069551df27b4261f5ddf336d6c742848b52d5f17c3bfaaa0", 5_218),
        ("test.txt", "ebcf1c6f84d5f27c85e173f399ae7c4755fd582a0d95c7173369f6ca539c9f0f", 21_088),
    ),
    _published(
        "FB13",
        "Freebase people with labelled negatives in valid and test (Socher et al. 2013)",
        (75_043, 13),
        f"{_STAYPOSITIVE}/FB13",
        ("train.txt", "a5fbd015907724cea39d1eb8379cdd5b4859515196beda261e302401428035fb", 316_232),
        ("valid.txt", "431d05a8dd27cf5adbfc9ae5f7f3f40037bcdc9632bfc87eccdb4895e2633c6c", 11_816),
        ("test.txt", "a85b2e843f64b2020987bf3e99aac0a875ac5d05e900f5a63a37305b7c34741b", 47_466),
    ),
    _published(
        "CoDEx-S",
        "Wikidata with hard true negatives in valid and test (Safavi and Koutra 2020)",
        (2_034, 42),
        f"{_CODEX}/codex-s",
        ("train.txt", "64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59", 32_888),
        ("valid.txt", "3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c", 1_827),
        ("valid_negatives.txt", "c1d84860d6ee786419f1f118d0e9479c6614283b3e267afc158734389036901f", 1_827),
        ("test.txt", "27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1", 1_828),
        ("test_negatives.txt", "d3fb32c41f3be26d09484ace571965806f1ade0ca712551b0de684c283cdbb22", 1_828),
    ),
    _by_hand(
        "WN18AM",
        "WN18RR without unseen entities (the paper's cleaning rule)",
        (40_559, 11, 86_835, 2_824, 2_924),
        base="WN18RR",
    ),
    _by_hand(
        "FB15k-237AM",
        "FB15k-237 without unseen entities (the paper's cleaning rule)",
        (14_505, 237, 272_115, 17_526, 20_438),
        base="FB15k-237",
    ),
)

CATALOGUE: dict[str, Dataset] = {dataset.name.casefold(): dataset for dataset in _DATASETS}
"""Every named dataset, by its name in lower case."""
