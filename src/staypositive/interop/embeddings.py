"""Embeddings as files: the rows that scores are made of, with their labels.

Rows are what the bound leaves of the weights (and, for NTN and TuckER, the relation's matrix; for TransE, the lifted
point). A relation that was learnt backwards too has a second row, called `NAME_inverse`.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError, SettingError
from staypositive.files import write_atomic
from staypositive.interop.tables import to_parquet
from staypositive.models import evaluating
from staypositive.run import Run

EMBEDDING_FORMATS = ("npy", "parquet", "word2vec")
Rows = NDArray[np.float32]


def embeddings(run: Run) -> dict[str, tuple[list[str], Rows]]:
    """Return labels and rows of `entities` and `relations`."""
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
    vector in each row; `word2vec`: `entities.txt`, in word2vec's text format, which parts cells by spaces, so that
    white space in labels becomes `_`.
    """
    if format not in EMBEDDING_FORMATS:
        raise SettingError(f"embeddings are exported as {', '.join(EMBEDDING_FORMATS)}, got {format!r}")
    out = Path(out)
    for kind, (labels, rows) in embeddings(run).items():
        for suffix, data in _files(format, kind, labels, rows).items():
            write_atomic(out / f"{kind}.{suffix}", data)
    return out


def _files(format: str, kind: str, labels: list[str], rows: Rows) -> dict[str, bytes | str]:
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, rows, allow_pickle=False)
        return {"npy": stream.getvalue(), "json": json.dumps(labels, ensure_ascii=False, indent=0) + "\n"}
    if format == "parquet":
        return {"parquet": to_parquet(_frame(labels, rows))}
    return {"txt": _word2vec(kind, labels, rows)}


def _frame(labels: list[str], rows: Rows) -> Any:
    import pandas as pd

    return pd.DataFrame({"label": labels, "vector": list(rows)})


def _word2vec(kind: str, labels: list[str], rows: Rows) -> str:
    words = ["_".join(label.split()) for label in labels]
    if len(set(words)) < len(words):
        twice = next(word for place, word in enumerate(words) if word in words[:place])
        raise InputError(f"two {kind} would both be called {twice!r} in word2vec's format; export as npy or parquet")
    lines = [f"{len(rows)} {rows.shape[1]}\n"]
    lines += [f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in zip(words, rows, strict=True)]
    return "".join(lines)
