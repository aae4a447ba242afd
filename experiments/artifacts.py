"""Artifacts: the ranks or log-odds behind figures, small enough to commit, so that anyone can recompute them.

One file is one run on one dataset's test split: a line of JSON that says what it is, and columns of integers, made
small by `packing` and compressed by LZMA. No model, GPU or dataset is needed to get from it to its figures.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import packing
from experiments.packing import Arrays
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

Floats = NDArray[np.float64]
_COUNTS = ("better", "ties", "raw_better", "raw_ties")
NULL_WAYS = ("posterior", "platt", "isotonic", "beta", "null-logistic")
DIGITS = 3
"""Decimals of probabilities' figures in the docs: what artifacts of log-odds recompute."""
ROUNDING = 6e-6
"""The relative error of six significant digits, which the results have."""
MOST_DROPPED = 18
FOLDER, SUFFIX = "artifacts", ".xz"


@dataclass(frozen=True)
class Artifact:
    """What one run gave on the test split: counts behind ranks, or log-odds of labelled triples."""

    about: dict[str, Any]
    """The columns of the results that its figures share."""
    arrays: Arrays
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Bits of float32 that were dropped, by column; see `packing`."""

    @property
    def kind(self) -> str:
        """`ranking`, `classification` or `background`."""
        if "better" in self.arrays:
            return "ranking"
        return "background" if "test_tail_z" in self.arrays else "classification"

    def to_bytes(self) -> bytes:
        """Return the file: a line of JSON, then columns of integers, all of it compressed."""
        layout, data = packing.to_bytes(packing.pack(self.arrays, self.dropped))
        head = {"about": self.about, "dropped": dict(self.dropped), "layout": layout}
        whole = json.dumps(head, sort_keys=True, ensure_ascii=False).encode() + b"\n" + data
        return lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME)

    def write(self, path: Path) -> None:
        """Write the file, atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, self.to_bytes())

    @classmethod
    def read(cls, path: Path) -> Artifact:
        """Read a file; an error names it."""
        try:
            head, _, data = lzma.decompress(path.read_bytes()).partition(b"\n")
            said = json.loads(head)
            columns = packing.from_bytes(said["layout"], data)
            return cls(said["about"], packing.unpack(columns, said["dropped"]), said["dropped"])
        except (EOFError, KeyError, TypeError, ValueError, lzma.LZMAError) as error:
            raise DataError(f"not an artifact: {error}", path) from None

    def packed(self, dropped: Mapping[str, int]) -> Artifact:
        """Return what would be read again, had these bits been dropped: sorted, with nothing that no figure needs."""
        columns = packing.pack(self.arrays, dropped)
        return Artifact(self.about, packing.unpack(columns, dropped), dropped)

    def packed_tightly(self) -> Artifact:
        """Return the same with as many bits dropped of each column as leave every figure the same as shown."""
        wanted = self.figures_as_shown()
        found = self
        for knob in packing.KNOBS if self.kind != "ranking" else ():
            for bits in range(MOST_DROPPED, 0, -1):
                tried = self.packed({**found.dropped, knob: bits})
                if tried.figures_as_shown() == wanted:
                    found = tried
                    break
        return found

    def figures_as_shown(self) -> list[tuple[str, str, float]]:
        """Return the figures to the digits that tables show."""
        return [(row.get("calibration", ""), row["metric"], round(row["value"], DIGITS)) for row in self.rows()]

    def rows(self, file: str = "") -> list[dict[str, Any]]:
        """Return the figures, as rows of the results."""
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
        rows = self._judged(test, valid, "uncalibrated")
        for way in ("platt", "isotonic"):
            calibrator = fit_calibrator(way, valid, self.arrays["valid_signs"])
            rows += self._judged(calibrator.apply(test), calibrator.apply(valid), way, f"_{way}")
        return rows

    def _judged(self, test: Floats, valid: Floats, way: str, suffix: str = "") -> list[dict[str, Any]]:
        """Return the metrics of the test triples' log-odds; those of validation triples choose thresholds."""
        signs = self.arrays["test_signs"]
        metrics = classification_metrics(test, signs) | threshold_metrics(
            (test, signs, self.arrays["test_relations"]),
            (valid, self.arrays["valid_signs"], self.arrays["valid_relations"]),
        )
        place = {"calibration": way, "unseen": "with"}
        return [place | {"metric": f"{name}{suffix}", "value": value} for name, value in metrics.items()]

    def calibrated(self, way: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the log-odds of the test triples and of the validation triples under one of `NULL_WAYS`."""
        test, valid = self._features("test"), self._features("valid")
        rivals = self._features("rivals") if "rivals_tail_z" in self.arrays else None
        logits, reference = ((own.tail_scores + own.head_scores) / 2 for own in (test, valid))
        calibrator = fit_calibrator(way, reference, self.arrays["valid_signs"], valid, rivals)
        if isinstance(calibrator, FeatureCalibrator):
            return calibrator.apply_features(test), calibrator.apply_features(valid)
        return calibrator.apply(logits), calibrator.apply(reference)

    def _background(self) -> list[dict[str, Any]]:
        """Judge every calibration, of which `posterior` has seen no false triple; the others are fitted to labels."""
        return [
            row | ({} if way == "posterior" else {"selected_on": "valid"})
            for way in NULL_WAYS
            for row in self._judged(*self.calibrated(way), way)
        ]

    def _features(self, split: str) -> Features:
        """Return the features of a split's triples; rivals are told by z-scores, and have no others."""
        relations = self.arrays[f"{split}_relations"].astype(np.int64)
        none = np.zeros(len(relations))
        names = [one.name for one in fields(Features) if one.name != "relations"]
        return Features(
            relations, **{name: self.arrays.get(f"{split}_{name}", none).astype(np.float64) for name in names}
        )


def background_artifact(graph: KnowledgeGraph, model: BilinearModel, about: dict[str, Any]) -> Artifact:
    """Keep scores and z-scores of labelled validation and test triples: what every calibration starts from.

    Of the rivals of validation facts, z-scores are enough: they serve as a density.
    """
    background = NullDistribution(graph, Scorer(model))
    arrays: Arrays = {}
    for name, split in (("valid", graph.valid), ("test", graph.test)):
        arrays |= _arrays_of(background.features(split.triples), name)
        arrays[f"{name}_signs"] = split.signs.astype(np.int8)
    rivals = background.candidates_in_range(graph.valid.facts)
    if len(rivals):
        arrays |= {name: values for name, values in _arrays_of(rivals, "rivals").items() if "scores" not in name}
    return Artifact(about, arrays).packed({})


def _arrays_of(features: Features, name: str) -> Arrays:
    return {
        f"{name}_{one.name}": getattr(features, one.name).astype(np.int16 if one.name == "relations" else np.float32)
        for one in fields(Features)
    }


def result_artifact(graph: KnowledgeGraph, model: BilinearModel, about: dict[str, Any]) -> Artifact:
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
        return Artifact(about, arrays).packed({})
    with torch.no_grad():
        ranks = rank_facts(Scorer(model).asked(), graph.test.facts, graph.facts())
    return Artifact(about, {name: getattr(ranks, name).astype(np.int32) for name in _COUNTS}).packed({})


def agree(shown: float, recomputed: float, digits: int | None) -> bool:
    """Whether two figures are the same: to six significant digits, or to some decimals where bits were dropped."""
    if abs(shown - recomputed) <= ROUNDING * abs(recomputed):
        return True
    return digits is not None and round(shown, digits) == round(recomputed, digits)


def artifact_files(results: Path) -> list[Path]:
    """Return every artifact under a folder of results."""
    return sorted((results / FOLDER).glob(f"*{SUFFIX}"))
