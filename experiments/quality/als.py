"""Alternating least squares for the second-moment loss, beside gradient steps on it: validation MRR and seconds.

The loss is quadratic in one entity's row, or one relation's, while all others stay: so each has its best row in
closed form, as in iALS (Hu, Koren and Volinsky 2008). A sweep goes through the relations, then through the entities
in a drawn order. G and the queries' own Gram matrix follow each row at once, so that the next one meets what is true
by then. Facts are read in both directions, through reciprocal relations. Seconds are the CPU's, of one thread.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from experiments.context import RESULTS, ExperimentContext, ResultsOption
from experiments.data import read_data
from experiments.paper.packed_runs import Outcome
from experiments.paper.paper import Cell
from experiments.paper.table2 import about_row
from staypositive.graph import KnowledgeGraph, load_graph
from staypositive.models import BilinearModel, BlockModel
from staypositive.models.block import Table
from staypositive.objectives import SecondMoment
from staypositive.run import new_model, training_task
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import Settings, make_settings
from staypositive.training import build_engine

CPU = torch.device("cpu")
W0, START = 0.01, 0.1
"""The weight of what is no fact; where rows start that are solved for."""
WAYS: dict[str, dict[str, Any]] = read_data("settings")["als"]
HEAD, RELATION, TAIL = range(3)


class Alternating:
    """Solves for one row after the other; the model's own tables hold them.

    The loss is Σ over facts, each read both ways, of (1−φ)² − w0·φ² + w0·qᵀGq and a penalty of its three rows,
    weighted by `n3_power` as second-moment training does. The penalty is |row|², or N3 as a ridge whose weights come
    from the row as it was. An entity that answers its own queries is there of higher order: once each way, the other
    side is its row as it was. So where no row moves any more, the loss has no slope.
    """

    def __init__(self, model: BlockModel, objective: SecondMoment, facts: Tensor, penalty: str, seed: int) -> None:
        self.model, self.w0, self.ridge, self.penalty = model, objective.unobserved_weight, objective.n3, penalty
        self.entities, self.relations = model.entities.data, model.relations.data
        self.generator = torch.Generator().manual_seed(seed)
        self.facts = [_sorted_by(facts, column, len(table)) for column, table in
                      ((HEAD, self.entities), (RELATION, self.relations), (TAIL, self.entities))]  # fmt: skip
        counts = torch.bincount(facts[:, TAIL], minlength=len(self.entities)).to(self.entities.dtype)
        weights = counts.clamp(min=1).pow(-objective.n3_power)
        self.weights = 2 * counts * weights / weights[facts[:, TAIL]].mean()  # as head of a reading, and as tail

    @torch.no_grad()
    def sweep(self) -> None:
        """Give each relation its best row, then each entity."""
        gram = self.entities.T @ self.entities
        for relation, own in enumerate(self.facts[RELATION]):
            self.relations[relation] = self._relation(self.relations[relation], own, gram)
        heads, relations, _ = torch.cat(self.facts[HEAD]).unbind(1)
        queries = self.model.tail_query(self.entities[heads], self.relations[relations])
        asked = queries.T @ queries
        for entity in torch.randperm(len(self.entities), generator=self.generator).tolist():
            self._renew(entity, gram, asked)

    def _relation(self, row: Tensor, facts: Tensor, gram: Tensor) -> Tensor:
        heads, tails = self.entities[facts[:, HEAD]], self.entities[facts[:, TAIL]]
        own = self.model.relation_query(heads, tails)
        matrix = (1 - self.w0) * own.T @ own
        matrix += self.w0 * squares(self.model, RELATION, heads.T @ heads, gram)
        return _solve(matrix + torch.diag(len(facts) * self._slope(row)), own.sum(0))

    def _renew(self, entity: int, gram: Tensor, asked: Tensor) -> None:
        """Give an entity its best row, and keep G and Σ q qᵀ over all facts' queries true."""
        model, row = self.model, self.entities[entity].clone()
        given, answers = self.facts[HEAD][entity], self.facts[TAIL][entity]
        rows = self.relations[given[:, RELATION]]
        own = torch.cat([
            model.head_query(self.entities[given[:, TAIL]], rows),
            model.tail_query(self.entities[answers[:, HEAD]], self.relations[answers[:, RELATION]]),
        ])  # fmt: skip
        matrix = (1 - self.w0) * own.T @ own + self.w0 * asked
        matrix += self.w0 * squares(model, HEAD, rows.T @ rows, gram)
        matrix += torch.diag(self.weights[entity] * self._slope(row))
        best = _solve(matrix, own.sum(0))
        self.entities[entity] = best
        gram += torch.outer(best, best) - torch.outer(row, row)
        before, after = (model.tail_query(one, rows) for one in (row, best))
        asked += after.T @ after - before.T @ before

    def _slope(self, row: Tensor) -> Tensor:
        """Return w with the penalty of the row's slope 2w·row."""
        if self.penalty == "l2":
            return torch.full_like(row, self.ridge)
        sizes = self.model.moduli(row)
        return (1.5 * self.ridge * sizes + 1e-9).repeat(len(row) // len(sizes))


def squares(model: BlockModel, missing: int, first: Tensor, second: Tensor) -> Tensor:
    """Return A with xᵀAx = Σ φ² over pairs of the two places beside `missing`, given the Gram matrices of those two.

    Each two terms m and n leave, in the blocks of the missing place, c_m c_n times the product of the others' blocks.
    """
    one, other = (place for place in (HEAD, RELATION, TAIL) if place != missing)
    places, coefficients = _pairs(model.table)
    left, right = (_blocks(gram, model.dim) for gram in (first, second))
    products = left[places[:, one].unbind()] * right[places[:, other].unbind()] * (model.scale**2 * coefficients)
    blocks = model.table.relation_blocks if missing == RELATION else model.table.entity_blocks
    found = left.new_zeros(blocks, blocks, model.dim, model.dim)
    found.index_put_(places[:, missing].unbind(), products, accumulate=True)
    return found.transpose(1, 2).flatten(2).flatten(0, 1)


@cache
def _pairs(table: Table) -> tuple[Tensor, Tensor]:
    """Return the blocks of each two terms, shape (2, place, pairs), and the products of their coefficients."""
    pairs = list(itertools.product(table.terms, repeat=2))
    places = torch.tensor([[[int(term[place]) for term in two] for two in pairs] for place in range(3)])
    coefficients = torch.tensor([m.coefficient * n.coefficient for m, n in pairs])
    return places.permute(2, 0, 1), coefficients[:, None, None]


def _solve(matrix: Tensor, wanted: Tensor) -> Tensor:
    return torch.cholesky_solve(wanted[:, None], torch.linalg.cholesky(matrix))[:, 0]


def _blocks(gram: Tensor, dim: int) -> Tensor:
    result: Tensor = gram.unflatten(0, (-1, dim)).unflatten(2, (-1, dim)).transpose(1, 2)
    return result


def _sorted_by(facts: Tensor, column: int, count: int) -> tuple[Tensor, ...]:
    """Return each id's facts."""
    order = facts[facts[:, column].argsort(stable=True)]
    parts: tuple[Tensor, ...] = order.split(torch.bincount(facts[:, column], minlength=count).tolist())
    return parts


def train(
    settings: Settings, penalty: str, looks: list[int], graph: KnowledgeGraph
) -> Iterator[tuple[int, float, BilinearModel]]:
    """Yield a model after each number of sweeps, or of epochs without a penalty, and the CPU's seconds they took."""
    model, seconds, done = new_model(graph, settings), 0.0, 0
    task = training_task(graph, settings, model)
    assert isinstance(task.facts, Tensor)
    one_pass: Callable[[], object] = build_engine(settings.engine, task).run_epoch
    if penalty:
        assert isinstance(model, BlockModel)
        assert isinstance(settings.objective, SecondMoment)
        one_pass = Alternating(model, settings.objective, task.facts, penalty, settings.seed).sweep
    for look in looks:
        model.train()
        start = time.process_time()
        for _ in range(look - done):
            one_pass()
        seconds, done = seconds + time.process_time() - start, look
        yield look, seconds, model.eval()


def als(
    dataset: str,
    model: str = "complex",
    dim: int = 64,
    sweeps: Annotated[str, typer.Option(help="Sweeps to evaluate after, separated by commas.")] = "2,5,12",
    epochs: Annotated[str, typer.Option(help="Epochs to evaluate after.")] = "10,25,60",
    seeds: int = 2,
    results: ResultsOption = RESULTS,
) -> None:
    """Compare alternating least squares with gradient steps on the second-moment loss: validation MRR and seconds.

    Example: python -m experiments als CoDEx-S --dim 64
    """
    torch.set_num_threads(1)
    graph = load_graph(dataset)
    measure = validation_measure(graph, None, "mrr")
    context = ExperimentContext.start("als", results)
    common = {"model": model, "objective": "second-moment", "batch_size": 1000, "unobserved_weight": W0}
    for penalty in ("l2", ""):  # what is loaded at first use is not timed
        list(train(make_settings(**common, dim=4, init_scale=START), penalty, [1], graph))
    ranked = {"filter": "filtered", "ties": "realistic", "side": "both"}
    for (way, said), seed in itertools.product(WAYS.items(), range(seeds)):
        penalty, options = said["penalty"], {name: value for name, value in said.items() if name != "penalty"}
        start = {"init_scale": START} if penalty else {}  # steps grow from near nothing, a solve would stay there
        settings = make_settings(**common, dim=dim, seed=seed, **start, **options)
        looks = [int(text) for text in (sweeps if penalty else epochs).split(",")]
        for passes, seconds, trained in train(settings, penalty, looks, graph):
            mrr = measure(trained)
            print(f"{way}, seed {seed}: MRR {mrr:.4f} after {passes} passes, {seconds:.1f} s", flush=True)
            cell = Cell(way, model, "second-moment", graph.name)
            about = about_row(cell, Outcome(settings, trained), graph, context, "fixed")
            setting = f"w0 {W0}, ridge {options['n3']}, start ±{START}" if penalty else about["setting"]
            about |= {"split": "valid", "setting": f"{way}; {passes} passes; {setting}"}
            figures = [{"metric": "cpu_seconds", "value": seconds, "unit": "s"}, {"metric": "mrr", "value": mrr}]
            context.add([about | figures[0], about | ranked | figures[1]])
