"""A trained scorer as an ONNX graph (extra `onnx`): ids in, score and probability out.

Every model is linear in each of its three rows, so its score is Σ c · h[i] · r[j] · t[k] over some (i, j, k, c).
These are found by asking the model for `relation_query` of unit rows, which serves any model of the contract.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.models import BilinearModel, Scorer
from staypositive.probability import Beta, Calibrator, Isotonic, Platt, Temperature
from staypositive.run import Run
from staypositive.version import __version__

OPSET = 17
MOST_BYTES = 2**31 - 2**20
"""What one ONNX file can hold."""
TINY = 1e-9
"""Products below this share of the largest are rounding, such as a Fourier transform's."""


class Products(NamedTuple):
    """The products that a score is the sum of: places in head, relation and tail rows, and coefficients."""

    head: NDArray[np.int64]
    relation: NDArray[np.int64]
    tail: NDArray[np.int64]
    coefficients: NDArray[np.float32]


def products_of(model: BilinearModel, width: int) -> Products:
    """Return the products of a model whose entity rows have this width."""
    units = torch.eye(width, dtype=torch.float64)
    found = []
    for place in range(width):
        query = model.relation_query(units[place].expand(width, width), units)  # tail unit × relation entry
        query = torch.where(query.abs() > TINY * model.scale, query, torch.zeros_like(query))
        tail, relation = query.nonzero().T.numpy()
        found.append((np.full(len(tail), place), relation, tail, query[tail, relation].numpy()))
    head, relation, tail, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Products(head, relation, tail, values.astype(np.float32))


def export_onnx(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write a run's scorer: inputs `head`, `relation`, `tail` (ids, shape (n,)), outputs `score` and `probability`.

    Labels by id are written beside it, as JSON. The probability is the calibrated one where the calibrator is a map
    of scores (platt, temperature, beta, isotonic), or σ(score + ψ) without a calibrator; with one that looks at the
    null distribution there is `score` alone.
    """
    path = Path(path)
    scorer = Scorer(run.model)
    tables = [rows.float().cpu().numpy() for rows in (scorer.entity_rows, scorer.relation_rows)]
    if sum(table.nbytes for table in tables) > MOST_BYTES:
        raise InputError("the rows do not fit in one ONNX file, which holds 2 GB; export the embeddings instead")
    data = _model(run, tables).SerializeToString()
    write_atomic(path, data)
    labels = {"entities": run.graph.entities.labels, "relations": run.graph.relations.labels}
    write_atomic(path.with_suffix(".labels.json"), json.dumps(labels, ensure_ascii=False) + "\n")
    return path


class _Builder:
    """Nodes and constants of a graph; each method adds a node and returns the name of what it gives."""

    def __init__(self) -> None:
        try:
            import onnx
        except ModuleNotFoundError:
            raise InputError("ONNX needs onnx: pip install 'staypositive[onnx]'") from None
        self.onnx: Any = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name


def _model(run: Run, tables: list[NDArray[np.float32]]) -> Any:
    graph = _Builder()
    entities, relations = (graph.constant(table) for table in tables)
    products = products_of(run.model, tables[0].shape[1])
    score = _score(graph, products, entities, relations, ("head", "relation", "tail"))
    if run.model.reciprocal:
        backwards = graph.node("Add", "relation", graph.constant(np.int64(run.model.n_relations)))
        other = _score(graph, products, entities, relations, ("tail", backwards, "head"))
        score = graph.node("Mul", graph.node("Add", score, other), graph.constant(0.5))
    outputs = [graph.node("Identity", score, name="score")]
    logit = graph.node("Add", score, graph.constant(run.model.prior_score))
    if _probability(graph, logit, run.calibrator):
        outputs.append("probability")
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    built = helper.make_graph(
        graph.nodes,
        f"{run.settings.model} on {run.graph.name}",
        [helper.make_tensor_value_info(name, kinds.INT64, ["n"]) for name in ("head", "relation", "tail")],
        [helper.make_tensor_value_info(name, kinds.FLOAT, ["n"]) for name in outputs],
        graph.constants,
    )
    model = helper.make_model(
        built, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="staypositive",
        producer_version=__version__,
    )  # fmt: skip
    calibrator = run.calibrator.name if run.calibrator else "none"
    helper.set_model_props(model, {"model": run.settings.model, "calibrator": calibrator, "graph": run.graph.name})
    return model


def _score(graph: _Builder, products: Products, entities: str, relations: str, ids: tuple[str, str, str]) -> str:
    """Add Σ c · h[i] · r[j] · t[k] for rows named by ids."""
    columns = []
    places = (products.head, products.relation, products.tail)
    for table, own, place in zip((entities, relations, entities), ids, places, strict=True):
        row = graph.node("Gather", table, own, axis=0)
        columns.append(graph.node("Gather", row, graph.constant(place), axis=1))
    head, relation, tail = columns
    pairs = graph.node("Mul", graph.node("Mul", head, tail), relation)
    return graph.node("MatMul", pairs, graph.constant(products.coefficients))


def _probability(graph: _Builder, logit: str, calibrator: Calibrator | None) -> bool:
    """Add the probability of calibrated log-odds; False where the calibrator is no map of them."""
    if isinstance(calibrator, Isotonic):
        _interpolated(graph, logit, calibrator)
        return True
    calibrated = logit
    if isinstance(calibrator, Platt):
        calibrated = _line(graph, logit, calibrator.slope, calibrator.offset)
    elif isinstance(calibrator, Temperature):
        calibrated = _line(graph, logit, 1 / calibrator.temperature, 0.0)
    elif isinstance(calibrator, Beta):
        below = _line(graph, graph.node("Softplus", graph.node("Neg", logit)), -calibrator.below, calibrator.offset)
        above = _line(graph, graph.node("Softplus", logit), calibrator.above, 0.0)
        calibrated = graph.node("Add", below, above)
    elif calibrator is not None:
        return False
    graph.node("Sigmoid", calibrated, name="probability")
    return True


def _line(graph: _Builder, value: str, slope: float, offset: float) -> str:
    return graph.node("Add", graph.node("Mul", value, graph.constant(slope)), graph.constant(offset))


def _interpolated(graph: _Builder, logit: str, calibrator: Isotonic) -> None:
    """Add the piecewise linear map: its first value, and of each piece's rise as much as the logit has passed."""
    knots, values = np.array(calibrator.knots), np.array(calibrator.probabilities)
    if len(knots) < 2:
        flat = _line(graph, logit, 0.0, float(values[0]))
        graph.node("Identity", flat, name="probability")
        return
    column = graph.node("Unsqueeze", logit, graph.constant(np.array([-1])))
    shares = graph.node("Div", graph.node("Sub", column, graph.constant(knots[:-1])), graph.constant(np.diff(knots)))
    passed = graph.node("Clip", shares, graph.constant(0.0), graph.constant(1.0))
    risen = graph.node("MatMul", passed, graph.constant(np.diff(values)))
    graph.node("Add", risen, graph.constant(float(values[0])), name="probability")
