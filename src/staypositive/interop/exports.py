"""Graphs and embeddings as files, in formats that other tools read."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError, SettingError
from staypositive.files import write_atomic
from staypositive.graph import SPLITS, KnowledgeGraph, Triples, write_folder
from staypositive.graph.encoded import write_encoded
from staypositive.interop.ntriples import BASE, statement
from staypositive.interop.tables import TRIPLE, to_parquet
from staypositive.models import evaluating
from staypositive.run import Run

if TYPE_CHECKING:
    import pandas as pd

GRAPH_FORMATS = ("tsv", "parquet", "nt", "npz")
EMBEDDING_FORMATS = ("npy", "parquet", "word2vec")
Rows = NDArray[np.float32]


def export_graph(graph: KnowledgeGraph, out: str | os.PathLike[str], format: str = "tsv", base: str = BASE) -> Path:
    """Write a graph; `tsv`, `parquet` and `nt` make a folder of train, valid and test, `npz` makes one file.

    N-Triples keep false triples in files of their own (`valid_negatives.nt`), and have no confidence.
    """
    out = Path(out)
    if format not in GRAPH_FORMATS:
        raise SettingError(f"a graph is exported as {', '.join(GRAPH_FORMATS)}, got {format!r}")
    if format == "tsv":
        return write_folder(graph, out)
    if format == "npz":
        write_encoded(out, graph)
        return out
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give a new folder, so that nothing is lost or mixed")
    for name in SPLITS:
        split = graph.split(name)
        if format == "parquet" and len(split):
            extra = {"label": split.labels, "confidence": split.weights}
            table = labelled(graph, split.triples).assign(**{k: v for k, v in extra.items() if v is not None})
            write_atomic(out / f"{name}.parquet", to_parquet(table))
        elif format == "nt":
            for stem, triples in ((name, split.facts), (f"{name}_negatives", split.falsehoods)):
                lines = [statement(row, base) for row in labelled(graph, triples).to_numpy().tolist()]
                if lines:
                    write_atomic(out / f"{stem}.nt", "".join(lines))
    return out


def labelled(graph: KnowledgeGraph, triples: Triples) -> pd.DataFrame:
    """Return triples by label, as a table of head, relation and tail."""
    import pandas as pd

    labels = (graph.entities, graph.relations, graph.entities)
    columns = ([own[number] for number in ids] for own, ids in zip(labels, triples.T.tolist(), strict=True))
    return pd.DataFrame(dict(zip(TRIPLE, columns, strict=True)))


def embeddings(run: Run) -> dict[str, tuple[list[str], Rows]]:
    """Return labels and rows of `entities` and `relations`: the rows that scores are made of, bound applied.

    A relation that was learnt in reverse too has a second row, called `NAME_inverse`.
    """
    with evaluating(run.model):
        formed = run.model.entity_rows(), run.model.relation_rows()
        entities, relations = (rows.float().cpu().numpy() for rows in formed)
    names = list(run.graph.relations)
    if run.model.reciprocal:
        names += [f"{name}_inverse" for name in names]
    return {"entities": (list(run.graph.entities), entities), "relations": (names, relations)}


def export_embeddings(run: Run, out: str | os.PathLike[str], format: str = "npy") -> Path:
    """Write a run's embeddings to a folder, for entities and relations apart.

    `npy`: `entities.npy`, and its labels as a list in `entities.json`; `parquet`: `entities.parquet`, a label and a
    vector in each row; `word2vec`: `entities.txt`, in word2vec's text format, which separates cells by spaces, so
    that white space in labels becomes `_`.
    """
    if format not in EMBEDDING_FORMATS:
        raise SettingError(f"embeddings are exported as {', '.join(EMBEDDING_FORMATS)}, got {format!r}")
    import pandas as pd

    out = Path(out)
    for kind, (labels, rows) in embeddings(run).items():
        if format == "npy":
            stream = io.BytesIO()
            np.save(stream, rows, allow_pickle=False)
            write_atomic(out / f"{kind}.npy", stream.getvalue())
            write_atomic(out / f"{kind}.json", json.dumps(labels, ensure_ascii=False, indent=0) + "\n")
        elif format == "parquet":
            table = pd.DataFrame({"label": labels, "vector": list(rows)})
            write_atomic(out / f"{kind}.parquet", to_parquet(table))
        else:
            write_atomic(out / f"{kind}.txt", _word2vec(kind, labels, rows))
    return out


def _word2vec(kind: str, labels: list[str], rows: Rows) -> str:
    words = ["_".join(label.split()) for label in labels]
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise InputError(f"two {kind} would both be called {word!r} in word2vec's format; export as npy or parquet")
    lines = [f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in zip(words, rows, strict=True)]
    return "".join([f"{len(rows)} {rows.shape[1]}\n", *lines])
