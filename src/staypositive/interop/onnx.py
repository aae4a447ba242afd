"""A trained scorer as an ONNX graph (extra `onnx`): ids in, score and probability out.

Every model is linear in each of its three rows, so its score is Σ c · h[i] · r[j] · t[k] over some (i, j, k, c).
These are found by asking the model for `relation_query` of unit rows, which serves any model of the contract.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import InputError, import_optional
from staypositive.files import write_atomic
from staypositive.models import BilinearModel
from staypositive.probability import Beta, Calibrator, Isotonic, Platt, Temperature
from staypositive.run import Run
from staypositive.version import __version__

HEADER = f'<ir_version: 8, opset_import: ["": 17], producer_name: "staypositive", producer_version: "{__version__}">'
MOST_BYTES = 2**31 - 2**20
"""What one ONNX file can hold."""
TINY = 1e-9
"""Products below this share of the largest are rounding, such as a Fourier transform's."""
SCORE = """
  {0}_heads = Gather <axis=0> (entities, {1})          {0}_h = Gather <axis=1> ({0}_heads, head_places)
  {0}_relations = Gather <axis=0> (relations, {2})     {0}_r = Gather <axis=1> ({0}_relations, relation_places)
  {0}_tails = Gather <axis=0> (entities, {3})          {0}_t = Gather <axis=1> ({0}_tails, tail_places)
  {0}_ht = Mul ({0}_h, {0}_t)                          {0}_products = Mul ({0}_ht, {0}_r)
  {0} = MatMul ({0}_products, coefficients)"""
"""Σ c · h[i] · r[j] · t[k], named by the first field, of the rows whose ids the others name."""
Graph = tuple[str, dict[str, Any]]
"""Nodes in ONNX's own text, and the constants that they name."""


def products_of(model: BilinearModel, width: int) -> dict[str, Any]:
    """Return the products of a model whose entity rows have this width: places in the three rows, coefficients."""
    units = torch.eye(width, dtype=torch.float64)
    found = []
    for place in range(width):
        query = model.relation_query(units[place].expand(width, width), units)  # tail unit × relation entry
        query = torch.where(query.abs() > TINY * model.scale, query, torch.zeros_like(query))
        tail, relation = query.nonzero().T.numpy()
        found.append((np.full(len(tail), place), relation, tail, query[tail, relation].numpy()))
    names = ("head_places", "relation_places", "tail_places", "coefficients")
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*found, strict=True), strict=True)}


def export_onnx(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write a run's scorer: inputs `head`, `relation`, `tail` (ids, shape (n,)), outputs `score` and `probability`.

    Labels by id are written beside it, as JSON. The probability is the calibrated one where the calibrator is a map
    of scores (platt, temperature, beta, isotonic), or σ(score + ψ) without a calibrator; with one that looks at the
    null distribution there is only `score`.
    """
    onnx = import_optional("onnx", "ONNX", "onnx")
    path = Path(path)
    tables = [frame.to_numpy() for frame in run.embeddings.values()]
    if sum(table.nbytes for table in tables) > MOST_BYTES:
        raise InputError("the rows do not fit in one ONNX file, which holds 2 GB; export the embeddings instead")
    nodes, constants = _score(run.model, *tables)
    mapped = _probability(run.calibrator)
    outputs = "float[n] score" if mapped is None else "float[n] score, float[n] probability"
    text, added = mapped or ("", {})
    inputs = "int64[n] head, int64[n] relation, int64[n] tail"
    model: Any = onnx.parser.parse_model(f"{HEADER} scorer ({inputs}) => ({outputs}) {{ {nodes}\n{text} }}")
    for name, value in (constants | added).items():
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model.graph.name = f"{run.settings.model} on {run.graph.name}"
    about = {"model": run.settings.model, "graph": run.graph.name}
    onnx.helper.set_model_props(model, about | {"calibrator": run.calibrator.name if run.calibrator else "none"})
    write_atomic(path, model.SerializeToString())
    labels = {"entities": run.graph.entities.labels, "relations": run.graph.relations.labels}
    write_atomic(path.with_suffix(".labels.json"), json.dumps(labels, ensure_ascii=False) + "\n")
    return path


def _score(model: BilinearModel, entities: NDArray[np.float32], relations: NDArray[np.float32]) -> Graph:
    """Return the nodes of `score`, the mean over both directions of a reciprocal model, and of `logit`."""
    constants = products_of(model, entities.shape[1])
    constants |= {"entities": entities, "relations": relations, "prior_score": model.prior_score}
    nodes = SCORE.format("forward", "head", "relation", "tail")
    if model.reciprocal:
        constants |= {"n_relations": np.int64(model.n_relations), "half": 0.5}
        nodes += "\n  inverse = Add (relation, n_relations)" + SCORE.format("backward", "tail", "inverse", "head")
        nodes += "\n  both = Add (forward, backward)  score = Mul (both, half)"
    else:
        nodes += "\n  score = Identity (forward)"
    return nodes + "\n  logit = Add (score, prior_score)", constants


def _probability(calibrator: Calibrator | None) -> Graph | None:
    """Return the nodes from `logit` to `probability`; None where the calibrator is no map of log-odds."""
    line = "  scaled = Mul (logit, slope)  calibrated = Add (scaled, offset)  probability = Sigmoid (calibrated)"
    if calibrator is None:
        return "  probability = Sigmoid (logit)", {}
    if isinstance(calibrator, Platt):
        return line, {"slope": calibrator.slope, "offset": calibrator.offset}
    if isinstance(calibrator, Temperature):
        return line, {"slope": 1 / calibrator.temperature, "offset": 0.0}
    if isinstance(calibrator, Beta):
        nodes = """
  negated = Neg (logit)      log_below = Softplus (negated)    below = Mul (log_below, below_weight)
  log_above = Softplus (logit)                                 above = Mul (log_above, above_weight)
  log_odds = Add (below, above)    calibrated = Add (log_odds, offset)    probability = Sigmoid (calibrated)"""
        weights = {"below_weight": -calibrator.below, "above_weight": calibrator.above}
        return nodes, {**weights, "offset": calibrator.offset}
    if isinstance(calibrator, Isotonic):
        return _interpolated(np.array(calibrator.knots), np.array(calibrator.probabilities))
    return None


def _interpolated(knots: NDArray[np.float64], values: NDArray[np.float64]) -> Graph:
    """Return a piecewise linear map: its first value, and of each piece's rise the share the logit has passed."""
    knots, values = np.append(knots, knots[-1] + 1), np.append(values, values[-1])  # one knot alone makes no piece
    nodes = """
  column = Unsqueeze (logit, last)    beyond = Sub (column, knots)    shares = Div (beyond, widths)
  passed = Clip (shares, zero, one)   risen = MatMul (passed, rises)  probability = Add (risen, first)"""
    constants = {"last": np.array([-1]), "zero": 0.0, "one": 1.0, "first": values[0]}
    return nodes, {**constants, "knots": knots[:-1], "widths": np.diff(knots), "rises": np.diff(values)}
