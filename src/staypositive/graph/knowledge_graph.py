"""`KnowledgeGraph`: vocabularies, integer splits, optional ±1 labels, and where it all came from."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import DataError, InputError
from staypositive.graph.labelled import LabelledTriples, as_text
from staypositive.graph.labelled import Source as Source
from staypositive.graph.vocabulary import Vocabulary as Vocabulary

Triples = NDArray[np.int64]
"""An array of shape (n, 3): head, relation and tail ids."""

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Triples of one split; `labels` are ±1 where not all are facts, `weights` how much each counts in training."""

    triples: Triples
    labels: NDArray[np.int8] | None = None
    weights: NDArray[np.float32] | None = None

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
        if self.weights is not None:
            weights = np.asarray(self.weights)
            if weights.dtype.kind not in "iuf":
                raise InputError(f"weights are numbers, got {weights.dtype}")
            with np.errstate(over="ignore"):  # what 32 bits cannot hold becomes infinite, and is refused
                weights = weights.astype(np.float32)
            if weights.shape != (len(triples),) or not np.isfinite(weights).all() or (weights < 0).any():
                raise InputError("weights must be one finite number from 0 for each triple")
            object.__setattr__(self, "weights", weights)

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def signs(self) -> NDArray[np.int8]:
        """The label of each triple; +1 everywhere in a split without labels."""
        return np.ones(len(self), dtype=np.int8) if self.labels is None else self.labels

    @property
    def facts(self) -> Triples:
        return self.triples if self.labels is None else self.triples[self.labels > 0]

    @property
    def fact_weights(self) -> NDArray[np.float32] | None:
        """The weights of the triples that are true; None where all count alike."""
        return self.weights if self.weights is None or self.labels is None else self.weights[self.labels > 0]

    @property
    def n_facts(self) -> int:
        return len(self) if self.labels is None else int((self.labels > 0).sum())

    @property
    def falsehoods(self) -> Triples:
        return self.triples[self.signs < 0]

    @property
    def has_negatives(self) -> bool:
        return self.labels is not None and bool((self.labels < 0).any())

    def first(self, most: int) -> Triples:
        return self.triples[:most]

    def take(self, keep: NDArray[np.bool_]) -> Split:
        labels = None if self.labels is None else self.labels[keep]
        return Split(self.triples[keep], labels, None if self.weights is None else self.weights[keep])


def triple_keys(triples: NDArray[Any], n_entities: int, n_relations: int) -> NDArray[np.int64]:
    """Return one number per triple, shape (n,): two are equal exactly where their triples are.

    >>> triple_keys(np.array([[0, 1, 2], [2, 0, 0], [0, 1, 2]]), n_entities=3, n_relations=2).tolist()
    [5, 12, 5]
    """
    if n_entities**2 * n_relations >= 2**63:
        raise InputError("this graph has more possible triples than a 64-bit number can name")
    head, relation, tail = np.asarray(triples, dtype=np.int64).T
    keys: NDArray[np.int64] = (head * n_relations + relation) * n_entities + tail
    return keys


@dataclass(frozen=True, eq=False, repr=False)
class KnowledgeGraph:
    """A graph as the rest of the software sees it: integers, with the labels kept at the border."""

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Split
    valid: Split
    test: Split
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", as_text(self.name))
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
        return np.bincount(self.train.triples[:, [0, 2]].ravel(), minlength=len(self.entities)) > 0

    @property
    def seen_relations(self) -> NDArray[np.bool_]:
        return np.bincount(self.train.triples[:, 1], minlength=len(self.relations)) > 0

    def has_unseen(self, triples: Triples) -> NDArray[np.bool_]:
        """Return a mask of the triples with an entity or relation that no training triple has."""
        entities, relations = self.seen_entities, self.seen_relations
        return ~(entities[triples[:, 0]] & relations[triples[:, 1]] & entities[triples[:, 2]])

    def labelled(self, triples: Triples) -> list[list[str]]:
        """Return triples by their labels, a list for each."""
        vocabularies = (self.entities, self.relations, self.entities)
        return [[own[i] for own, i in zip(vocabularies, row, strict=True)] for row in triples.tolist()]

    def keys(self, triples: Triples) -> NDArray[np.int64]:
        return triple_keys(triples, len(self.entities), len(self.relations))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what the graph says (labels and splits), whatever the files' layout was."""
        return self.contents_sha256()

    def contents_sha256(self) -> str:
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update(json.dumps(vocabulary.labels).encode("utf-8") + b"\n")
        for name in SPLITS:
            split = self.split(name)
            weights = b"" if split.weights is None else split.weights.astype("<f4").tobytes()
            digest.update(split.triples.astype("<i8").tobytes() + split.signs.tobytes() + weights + b"\n")
        return digest.hexdigest()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the splits as arrays for a file: 32-bit triples by name, `_labels` and `_weights` beside them."""
        if len(self.entities) >= 2**31:
            raise InputError("this graph has more entities than 32-bit ids can name")
        arrays: dict[str, NDArray[Any]] = {}
        for name in SPLITS:
            split = self.split(name)
            arrays[name] = split.triples.astype(np.int32)
            extra = {f"{name}_labels": split.labels, f"{name}_weights": split.weights}
            arrays |= {role: array for role, array in extra.items() if array is not None}
        return arrays

    @classmethod
    def from_arrays(
        cls, name: str, labels: tuple[Iterable[str], Iterable[str]], arrays: Mapping[str, NDArray[Any]],
        sources: Iterable[Mapping[str, Any]], notes: Iterable[str],
    ) -> KnowledgeGraph:  # fmt: skip
        """Rebuild a graph from its `arrays`; `labels` are those of entities and of relations."""
        train, valid, test = (
            Split(arrays[split], arrays.get(f"{split}_labels"), arrays.get(f"{split}_weights")) for split in SPLITS
        )
        vocabularies = Vocabulary("entity", labels[0]), Vocabulary("relation", labels[1])
        kept = tuple(Source(**source) for source in sources)
        return cls(name, *vocabularies, train, valid, test, kept, tuple(notes))

    def counts(self) -> dict[str, int]:
        sizes = {"entities": len(self.entities), "relations": len(self.relations)}
        return sizes | {name: len(self.split(name)) for name in SPLITS}

    def _sizes(self) -> dict[str, str]:
        sizes = {"entities": len(self.entities), "relations": len(self.relations)}
        return {k: f"{n:,}" for k, n in (sizes | {f"{s} facts": self.split(s).n_facts for s in SPLITS}).items()}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n} {what}" for what, n in self._sizes().items())
        return f"{type(self).__name__}({self.name!r}: {sizes})"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks: sizes, and the first training fact as an example."""
        (example,) = self.labelled(self.train.first(1))
        rows = self._sizes() | {"first fact": html.escape(" · ".join(example))}
        cells = "".join(f"<tr><th>{what}</th><td>{value}</td></tr>" for what, value in rows.items())
        return f"<table><caption>{html.escape(self.name)}</caption>{cells}</table>"


def assemble(
    name: str, parts: Mapping[str, LabelledTriples], sources: Sequence[Source], notes: Sequence[str] = ()
) -> KnowledgeGraph:
    """Put splits together; ids follow train, then valid, then test, heads before tails, as they are first met."""
    entity_ids: dict[str, int] = {}
    relation_ids: dict[str, int] = {}
    splits: dict[str, Any] = dict.fromkeys(SPLITS, Split(np.empty((0, 3), dtype=np.int64)))
    for split, part in sorted(parts.items(), key=lambda item: SPLITS.index(item[0])):
        heads, own, tails = part.ids.T
        entities = _renumber(np.concatenate([heads, tails]), part.entities, entity_ids)
        relations = _renumber(own, part.relations, relation_ids)
        triples = np.column_stack([entities[heads], relations[own], entities[tails]])
        splits[split] = Split(triples, part.signs, part.weights)
    vocabularies = Vocabulary("entity", entity_ids), Vocabulary("relation", relation_ids)
    return KnowledgeGraph(name, *vocabularies, **splits, sources=tuple(sources), notes=tuple(notes))


def _renumber(used: NDArray[np.int32], labels: Sequence[str], ids: dict[str, int]) -> NDArray[np.int64]:
    """Give ids to the labels in use, in the order of their first use; return each label's id."""
    first = np.full(len(labels), len(used))
    first[used[::-1]] = np.arange(len(used))[::-1]  # of several values for one place, the last is kept: the first use
    new = np.full(len(labels), -1, dtype=np.int64)
    for number in np.argsort(first, kind="stable")[: int((first < len(used)).sum())].tolist():
        new[number] = ids.setdefault(labels[number], len(ids))
    return new
