"""`KnowledgeGraph`: vocabularies, integer splits, optional ±1 labels, and where it all came from."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError, UnknownLabelError

Triples = NDArray[np.int64]
"""An array of shape (n, 3): head, relation and tail ids."""

SPLITS = ("train", "valid", "test")


class Vocabulary(Sequence[str]):
    """Labels and their ids: `vocabulary[3]` is a label, `vocabulary.id("France")` its number."""

    def __init__(self, kind: str, labels: Iterable[str]) -> None:
        self.kind = kind
        self.labels = tuple(labels)
        self._ids = {label: i for i, label in enumerate(self.labels)}
        if len(self._ids) != len(self.labels):
            raise InputError(f"the {kind} labels are not distinct")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not needed
        return self.labels[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.kind, self.labels) == (other.kind, other.labels)

    def __hash__(self) -> int:
        return hash((self.kind, self.labels))

    def id(self, label: str) -> int:
        """Return the id of a label; an unknown one is an error that suggests the nearest labels."""
        try:
            return self._ids[label]
        except KeyError:
            raise UnknownLabelError(self.kind, label, self.nearest(label)) from None

    def ids(self, labels: Iterable[str]) -> NDArray[np.int64]:
        """Return the ids of many labels."""
        return np.fromiter((self.id(label) for label in labels), dtype=np.int64)

    def nearest(self, label: str, most: int = 3) -> list[str]:
        """Return up to `most` labels spelt like this one, whatever the case; a longer name may begin with it."""
        wanted = label.casefold()
        folded: dict[str, str] = {}
        for known in self.labels:
            folded.setdefault(known.casefold(), known)
        begins = sorted((known for known in folded if wanted and known.startswith(wanted)), key=len)
        close = difflib.get_close_matches(wanted, folded, n=most, cutoff=0.6)
        return [folded[known] for known in dict.fromkeys([*close[:1], *begins[:2], *close, *begins])][:most]


@dataclass(frozen=True, eq=False)
class Split:
    """Triples of one split; `labels` is None where all are facts, else +1 or -1 for each."""

    triples: Triples
    labels: NDArray[np.int8] | None = None

    def __post_init__(self) -> None:
        triples = np.asarray(self.triples)
        if triples.size == 0:
            triples = np.empty((0, 3), dtype=np.int64)
        if triples.ndim != 2 or triples.shape[1] != 3 or not np.issubdtype(triples.dtype, np.integer):
            raise InputError(f"triples are integers of shape (n, 3), got {triples.dtype} of shape {triples.shape}")
        object.__setattr__(self, "triples", np.ascontiguousarray(triples, dtype=np.int64))
        if self.labels is not None:
            labels = np.asarray(self.labels)
            if labels.shape != (len(triples),) or not np.isin(labels, (-1, 1)).all():
                raise InputError("labels must be one +1 or -1 for each triple")
            object.__setattr__(self, "labels", labels.astype(np.int8))

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def signs(self) -> NDArray[np.int8]:
        """The label of each triple; +1 everywhere in a split without labels."""
        return np.ones(len(self), dtype=np.int8) if self.labels is None else self.labels

    @property
    def facts(self) -> Triples:
        """The triples that are true."""
        return self.triples if self.labels is None else self.triples[self.labels > 0]

    @property
    def falsehoods(self) -> Triples:
        """The triples labelled false."""
        return self.triples[self.signs < 0]

    @property
    def has_negatives(self) -> bool:
        """Whether there is a triple labelled false."""
        return self.labels is not None and bool((self.labels < 0).any())

    def take(self, keep: NDArray[np.bool_]) -> Split:
        """Return the split with the triples that the mask keeps."""
        return Split(self.triples[keep], None if self.labels is None else self.labels[keep])


@dataclass(frozen=True)
class Source:
    """One file that a graph was read from: its name, the hash of its bytes and the triples it gave."""

    name: str
    sha256: str
    rows: int


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """A graph as the rest of the software sees it: integers, with the labels kept at the border."""

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Split
    valid: Split
    test: Split
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise DataError(f"graph {self.name!r} has no training triples; at least one fact is needed")
        if self.train.has_negatives:
            raise DataError(f"graph {self.name!r} has training triples labelled -1; training uses facts alone")
        limits = np.array([len(self.entities), len(self.relations), len(self.entities)])
        for name in SPLITS:
            triples = self.split(name).triples
            if len(triples) and ((triples < 0).any() or (triples >= limits).any()):
                raise InputError(f"split {name!r} of graph {self.name!r} has an id outside the vocabularies")

    def split(self, name: str) -> Split:
        """Return the split of that name: train, valid or test."""
        if name not in SPLITS:
            raise InputError(f"expected a split among {', '.join(SPLITS)}, got {name!r}")
        split = getattr(self, name)
        assert isinstance(split, Split)
        return split

    def facts(self, *splits: str) -> Triples:
        """Return the true triples of these splits together (of all splits when none is named)."""
        return np.concatenate([self.split(name).facts for name in splits or SPLITS])

    @property
    def seen_entities(self) -> NDArray[np.bool_]:
        """A mask of the entities that some training triple has."""
        return np.bincount(self.train.triples[:, [0, 2]].ravel(), minlength=len(self.entities)) > 0

    @property
    def seen_relations(self) -> NDArray[np.bool_]:
        """A mask of the relations that some training triple has."""
        return np.bincount(self.train.triples[:, 1], minlength=len(self.relations)) > 0

    def has_unseen(self, triples: Triples) -> NDArray[np.bool_]:
        """Return a mask of the triples with an entity or relation that no training triple has."""
        entities, relations = self.seen_entities, self.seen_relations
        return ~(entities[triples[:, 0]] & relations[triples[:, 1]] & entities[triples[:, 2]])

    def keys(self, triples: Triples) -> NDArray[np.int64]:
        """Return one number a triple, equal exactly for equal triples."""
        if len(self.entities) ** 2 * len(self.relations) >= 2**63:
            raise InputError("this graph has more possible triples than a 64-bit number can name")
        return (triples[:, 0] * len(self.relations) + triples[:, 1]) * len(self.entities) + triples[:, 2]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what the graph says (labels and splits), whatever the files' layout was."""
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update(json.dumps(vocabulary.labels).encode("utf-8") + b"\n")
        for name in SPLITS:
            split = self.split(name)
            digest.update(split.triples.astype("<i8").tobytes() + split.signs.tobytes() + b"\n")
        return digest.hexdigest()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the splits as small arrays for a file: triples by name, labels, if any, as `NAME_labels`."""
        if len(self.entities) >= 2**31:
            raise InputError("this graph has more entities than 32-bit ids can name")
        arrays: dict[str, NDArray[Any]] = {}
        for name in SPLITS:
            split = self.split(name)
            arrays[name] = split.triples.astype(np.int32)
            if split.labels is not None:
                arrays[f"{name}_labels"] = split.labels
        return arrays

    @classmethod
    def from_arrays(
        cls,
        name: str,
        labels: tuple[Iterable[str], Iterable[str]],
        arrays: Mapping[str, NDArray[Any]],
        sources: Iterable[Mapping[str, Any]],
        notes: Iterable[str],
    ) -> KnowledgeGraph:
        """Rebuild a graph from `arrays` and the labels of entities and relations."""
        train, valid, test = (Split(arrays[split], arrays.get(f"{split}_labels", None)) for split in SPLITS)
        return cls(
            name,
            Vocabulary("entity", labels[0]),
            Vocabulary("relation", labels[1]),
            train,
            valid,
            test,
            tuple(Source(**source) for source in sources),
            tuple(notes),
        )

    def counts(self) -> dict[str, int]:
        """Return the sizes that papers quote."""
        sizes = {"entities": len(self.entities), "relations": len(self.relations)}
        return sizes | {name: len(self.split(name)) for name in SPLITS}


Columns = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Heads, relations and tails of labelled triples, in parallel."""


def encode(
    name: str,
    columns: Mapping[str, Columns],
    labels: Mapping[str, NDArray[np.int8] | None],
    sources: Sequence[Source] = (),
) -> KnowledgeGraph:
    """Turn labelled triples into a graph; ids follow train, then valid, then test, heads before tails."""
    entity_ids: dict[str, int] = {}
    relation_ids: dict[str, int] = {}
    splits = {}
    for split in SPLITS:
        heads, relations, tails = columns.get(split, ((), (), ()))
        triples = np.empty((len(heads), 3), dtype=np.int64)
        for column, (values, ids) in enumerate(((heads, entity_ids), (relations, relation_ids), (tails, entity_ids))):
            for label in dict.fromkeys(values):
                ids.setdefault(label, len(ids))
            triples[:, column] = np.fromiter(map(ids.__getitem__, values), dtype=np.int64, count=len(values))
        splits[split] = Split(triples, labels.get(split))
    return KnowledgeGraph(
        name=name,
        entities=Vocabulary("entity", entity_ids),
        relations=Vocabulary("relation", relation_ids),
        sources=tuple(sources),
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
    )
