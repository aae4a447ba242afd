"""Problems of a graph's data, which are counted and reported; and the paper's rule for test triples, by request."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.graph.knowledge_graph import SPLITS, KnowledgeGraph, Vocabulary

FEW_RELATIONS, NEARLY, FACTS_EACH = 5, 0.8, 10
"""Relations are too many from this number and this share of the entities on, with fewer facts than this each."""


@dataclass(frozen=True)
class GraphReport:
    """Counts by split of what may surprise in a graph. All are zero in a clean one.

    `duplicates` are copies of a triple beyond the first (kept: each weighs in the loss); `leaks`, as `train/test`,
    facts that an earlier split already states; `contradictions` triples labelled -1 that some split states as a fact;
    the `unseen` ones have, or are, entities and relations that no training triple has. `many_relations` counts
    relations and entities where there are nearly as many relations, as when columns are in another order.
    """

    duplicates: dict[str, int]
    leaks: dict[str, int]
    contradictions: dict[str, int]
    unseen_entities: dict[str, int]
    unseen_relations: dict[str, int]
    unseen_triples: dict[str, int]
    many_relations: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return a sentence for each count that is not zero."""
        said = [f"{n:,} duplicate triples in {split} (kept)" for split, n in self.duplicates.items() if n]
        for pair, n in self.leaks.items():
            earlier, later = pair.split("/")
            said += [f"{n:,} triples of {later} are facts of {earlier} too"] if n else []
        contradicted = [(split, n) for split, n in self.contradictions.items() if n]
        said += [f"{n:,} triples labelled -1 in {split} are stated as facts as well" for split, n in contradicted]
        for split, n in self.unseen_triples.items():
            kinds = {"entities": self.unseen_entities[split], "relations": self.unseen_relations[split]}
            what = " or ".join(f"{k:,} {kind}" for kind, k in kinds.items() if k)
            said += [f"{n:,} triples of {split} have one of {what} that train never has"] if n else []
        if many := self.many_relations:
            said += [
                f"{many['relations']:,} relations beside {many['entities']:,} entities; if the columns are in "
                "another order than head, relation, tail, say so: --columns head=NAME,relation=NAME,tail=NAME, or by "
                "number"
            ]
        return said

    def as_dict(self) -> dict[str, dict[str, int]]:
        return asdict(self)


def inspect_graph(graph: KnowledgeGraph) -> GraphReport:
    """Count duplicates, leaks, contradictory labels and unseen entities."""
    keys = {name: graph.keys(graph.split(name).triples) for name in SPLITS}
    signs = {name: graph.split(name).signs for name in SPLITS}
    facts = {name: np.unique(keys[name][signs[name] > 0]) for name in SPLITS}
    stated = np.concatenate(list(facts.values()))
    held_out = {name: graph.split(name).triples for name in ("valid", "test")}

    def unseen(columns: list[int], seen: NDArray[np.bool_]) -> dict[str, int]:
        return {name: int((~seen[np.unique(triples[:, columns])]).sum()) for name, triples in held_out.items()}

    return GraphReport(
        duplicates={name: len(own) - len(np.unique(2 * own + (signs[name] > 0))) for name, own in keys.items()},
        leaks={
            f"{earlier}/{later}": len(np.intersect1d(facts[earlier], facts[later], assume_unique=True))
            for earlier, later in (("train", "valid"), ("train", "test"), ("valid", "test"))
        },
        contradictions={name: int(np.isin(keys[name][signs[name] < 0], stated).sum()) for name in held_out},
        unseen_entities=unseen([0, 2], graph.seen_entities),
        unseen_relations=unseen([1], graph.seen_relations),
        unseen_triples={name: int(graph.has_unseen(triples).sum()) for name, triples in held_out.items()},
        many_relations=_many_relations(graph),
    )


def _many_relations(graph: KnowledgeGraph) -> dict[str, int]:
    """Return the counts where relations look like entities: nearly as many, with few facts each or entities too.

    A small graph of many well-attested relations, such as Nations, is as it should be.
    """
    relations, entities = len(graph.relations), len(graph.entities)
    if relations < FEW_RELATIONS or relations < NEARLY * entities:
        return {}
    are_rare = len(graph.train) < FACTS_EACH * relations
    are_entities = 2 * sum(label in graph.entities for label in graph.relations) > relations
    return {"relations": relations, "entities": entities} if are_rare or are_entities else {}


def drop_unseen(graph: KnowledgeGraph, name: str | None = None) -> KnowledgeGraph:
    """Drop each valid and test triple with an entity or relation that no training triple has.

    The paper's cleaning rule (section 4), which turns WN18RR into WN18AM and FB15k-237 into FB15k-237AM: what a model
    says of an unseen entity depends on its initialisation only. The vocabularies shrink to what training has, in the
    old order.
    """
    seen = (graph.seen_entities, graph.seen_relations)
    new_entity, new_relation = (np.cumsum(kept, dtype=np.int64) - 1 for kept in seen)
    splits: dict[str, Any] = {}
    for split in SPLITS:
        kept = graph.split(split).take(~graph.has_unseen(graph.split(split).triples))
        head, relation, tail = kept.triples.T
        triples = np.column_stack([new_entity[head], new_relation[relation], new_entity[tail]])
        splits[split] = replace(kept, triples=triples)
    entities, relations = (
        Vocabulary(own.kind, (own[i] for i in np.flatnonzero(kept).tolist()))
        for own, kept in zip((graph.entities, graph.relations), seen, strict=True)
    )
    dropped = sum(len(graph.split(split)) - len(splits[split]) for split in SPLITS)
    notes = [f"{dropped} valid and test triples with unseen entities dropped"] if dropped else []
    changed = {"name": name or graph.name, "entities": entities, "relations": relations} | splits
    return replace(graph, **changed, notes=(*graph.notes, *notes))
