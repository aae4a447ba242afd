"""Kept results: the ranks or log-odds behind a figure, small enough to commit, so that anyone can recompute it.

One file is one run on one dataset's test split: a compressed `.npz` of plain arrays and a JSON text that says what it
is. No model, GPU or dataset is needed to get from it to its rows of the index.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import DataError
from staypositive.evaluation import (
    SIDES,
    TIES,
    Ranks,
    classification_metrics,
    rank_facts,
    ranking_metrics,
    threshold_metrics,
)
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel, Scorer
from staypositive.probability import FeatureCalibrator, Features, NullDistribution, fit_calibrator

Arrays = dict[str, NDArray[Any]]
_COUNTS = ("better", "ties", "raw_better", "raw_ties")
BACKGROUND_WAYS = ("posterior", "platt", "isotonic", "beta", "null-logistic")


@dataclass(frozen=True)
class Kept:
    """What one run gave on the test split: counts behind ranks, or log-odds of labelled triples."""

    about: dict[str, Any]
    """The columns of the index that its rows share."""
    arrays: Arrays

    @property
    def kind(self) -> str:
        """`ranking`, `classification` or `background`."""
        if "better" in self.arrays:
            return "ranking"
        return "background" if "test_tail_z" in self.arrays else "classification"

    def write(self, path: Path) -> None:
        """Write the file, atomically."""
        text = np.frombuffer(json.dumps(self.about, sort_keys=True).encode(), dtype=np.uint8)
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, about=text, **self.arrays)
        write_atomic(path, stream.getvalue())

    @classmethod
    def read(cls, path: Path) -> Kept:
        """Read a file; an error names it."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files if name != "about"}
                return cls(json.loads(held["about"].tobytes()), arrays)
        except (EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"not a kept result: {error}", path) from None

    def rows(self, file: str = "") -> list[dict[str, Any]]:
        """Return the rows of the index that this result makes."""
        common = self.about | {"split": "test", "file": file}
        make = {"ranking": self._ranking, "background": self._background}.get(self.kind, self._classification)
        return [common | row for row in make()]

    def _ranking(self) -> list[dict[str, Any]]:
        arrays = {name: self.arrays[name].astype(np.int64) for name in _COUNTS}
        n = len(arrays["better"])
        nothing = np.zeros(n, dtype=np.int64)
        ranks = Ranks(
            relations=nothing, is_tail=np.arange(n) < n // 2, candidates=nothing, raw_candidates=nothing, **arrays
        )
        rows = []
        for kind, ties, side in [
            *(("filtered", ties, side) for ties in TIES for side in SIDES),
            ("raw", "realistic", "both"),
        ]:
            metrics = ranking_metrics(ranks.side(side), ties=ties, filtered=kind == "filtered")
            place = {"filter": kind, "ties": ties, "side": side, "unseen": "with"}
            rows += [place | {"metric": name, "value": metrics[name]} for name in metrics if name != "amri"]
        return rows

    def _classification(self) -> list[dict[str, Any]]:
        valid, test = (self.arrays[f"{split}_logits"].astype(np.float64) for split in ("valid", "test"))
        valid_signs, signs = self.arrays["valid_signs"], self.arrays["test_signs"]
        rows = []
        for way in ("uncalibrated", "platt", "isotonic"):
            shaped, reference = test, valid
            if way != "uncalibrated":
                calibrator = fit_calibrator(way, valid, valid_signs)
                shaped, reference = calibrator.apply(test), calibrator.apply(valid)
            metrics = classification_metrics(shaped, signs) | threshold_metrics(
                (shaped, signs, self.arrays["test_relations"]),
                (reference, valid_signs, self.arrays["valid_relations"]),
            )
            suffix = "" if way == "uncalibrated" else f"_{way}"
            rows += [
                {"calibration": way, "unseen": "with", "metric": f"{name}{suffix}", "value": value}
                for name, value in metrics.items()
            ]
        return rows

    def calibrated(self, way: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the log-odds of the test triples and of the validation triples under one of `BACKGROUND_WAYS`."""
        test, valid = self._features("test"), self._features("valid")
        rivals = self._features("rivals") if "rivals_tail_z" in self.arrays else None
        logits, reference = ((own.tail_scores + own.head_scores) / 2 for own in (test, valid))
        calibrator = fit_calibrator(way, reference, self.arrays["valid_signs"], valid, rivals)
        if isinstance(calibrator, FeatureCalibrator):
            return calibrator.apply_features(test), calibrator.apply_features(valid)
        return calibrator.apply(logits), calibrator.apply(reference)

    def _background(self) -> list[dict[str, Any]]:
        """Every calibration, of which `posterior` has seen no false triple."""
        rows = []
        for way in BACKGROUND_WAYS:
            shaped, reference = self.calibrated(way)
            signs = self.arrays["test_signs"]
            metrics = classification_metrics(shaped, signs) | threshold_metrics(
                (shaped, signs, self.arrays["test_relations"]),
                (reference, self.arrays["valid_signs"], self.arrays["valid_relations"]),
            )
            saw = {} if way == "posterior" else {"selected_on": "valid"}  # the others are fitted to labels
            rows += [
                {"calibration": way, "unseen": "with", "metric": name, "value": value, **saw}
                for name, value in metrics.items()
            ]
        return rows

    def _features(self, split: str) -> Features:
        relations = self.arrays[f"{split}_relations"].astype(np.int64)
        names = [field.name for field in fields(Features) if field.name != "relations"]
        return Features(relations, **{name: self.arrays[f"{split}_{name}"].astype(np.float64) for name in names})


def keep_background(graph: KnowledgeGraph, model: BilinearModel, about: dict[str, Any]) -> Kept:
    """Keep scores and z-scores of labelled validation and test triples: what every calibration starts from.

    And those of the rivals of validation facts, in 16 bits: they serve as a density alone.
    """
    background = NullDistribution(graph, Scorer(model))
    arrays: Arrays = {}
    for name, split in (("valid", graph.valid), ("test", graph.test)):
        arrays |= _arrays_of(background.features(split.triples), name, np.float32)
        arrays[f"{name}_signs"] = split.signs.astype(np.int8)
    rivals = background.candidates_in_range(graph.valid.facts)
    return Kept(about, arrays | (_arrays_of(rivals, "rivals", np.float16) if len(rivals) else {}))


def _arrays_of(features: Features, name: str, kind: type[np.floating[Any]]) -> Arrays:
    return {
        f"{name}_{field.name}": getattr(features, field.name).astype(np.int16 if field.name == "relations" else kind)
        for field in fields(Features)
    }


def keep_result(graph: KnowledgeGraph, model: BilinearModel, about: dict[str, Any]) -> Kept:
    """Put a trained model to the test split: log-odds where it has false triples, else ranks."""
    model.eval()
    if graph.test.has_negatives:
        arrays: Arrays = {}
        for name, split in (("valid", graph.valid), ("test", graph.test)):
            with torch.no_grad():
                triples = torch.as_tensor(split.triples, device=model.entities.device)
                arrays[f"{name}_logits"] = model.logit(*triples.unbind(1)).float().cpu().numpy()
            arrays[f"{name}_signs"] = split.signs.astype(np.int8)
            arrays[f"{name}_relations"] = split.triples[:, 1].astype(np.int16)
        return Kept(about, arrays)
    with torch.no_grad():
        ranks = rank_facts(Scorer(model).asked(), graph.test.facts, graph.facts())
    return Kept(about, {name: getattr(ranks, name).astype(np.int32) for name in _COUNTS})
