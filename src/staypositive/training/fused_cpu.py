"""The fused step on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from staypositive.models.hashing import drop_threshold
from staypositive.training.engine import SteppedEngine, Terms, terms_of
from staypositive.training.state import State
from staypositive.training.stores import RowStore
from staypositive.training.task import Prepared

MOST_THREADS = 8
LARGE_TABLE = 2**25
LARGEST = float(np.finfo(np.float32).max)


class _Table:
    """One table's weights and squares, and room for the rows of a step."""

    def __init__(self, weights: Tensor, squares: Tensor, all_rows: bool, threads: int) -> None:
        self.weights, self.squares = weights.detach().numpy(), squares.numpy()
        self.count_all, width = self.weights.shape
        self.width, self.all_rows, self.threads = width, all_rows, threads
        self.stamps = np.full(self.count_all, -1, dtype=np.int64)
        self.slots = np.zeros(self.count_all, dtype=np.int32)
        self.sums, self.push = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
        self.count, self.capacity = 0, 0
        if all_rows:
            self.reserve(self.count_all)
            self.found[:] = self.slots[:] = np.arange(self.count_all)
            self.count = self.count_all

    def reserve(self, rows: int) -> None:
        """Make room for a step of this number of distinct rows."""
        rows = min(rows, self.count_all)
        if rows > self.capacity:
            self.capacity = rows
            self.found = np.zeros(rows, dtype=np.int64)
            self.rows = np.zeros((rows, self.width), dtype=np.float32)
            self.gradients = np.zeros((self.threads, rows, self.width), dtype=np.float32)


class FusedCpuEngine(SteppedEngine):
    """Takes the steps of `AutogradEngine` through compiled kernels, for a loss in logistic form."""

    def __init__(self, store: RowStore) -> None:
        from staypositive.training import cpu_kernels

        super().__init__(store)
        model, self.adagrad, self.form = store.task.compiled()
        self.kernels = cpu_kernels
        for name in ("entities", "relations"):
            table = getattr(model, name)
            table.data = self.adagrad.tables[name] = _on_large_pages(table.data)
            self.adagrad.squares[name] = _on_large_pages(self.adagrad.squares[name])
        # Each thread has gradient buffers of its own, so more than a few do not pay.
        self.threads = cpu_kernels.available_threads(min(torch.get_num_threads(), MOST_THREADS))
        """The parts that each kernel's work is cut into, and how many threads do them while cores are free."""
        self.running = self.threads
        self.entity_table, self.relation_table = (
            _Table(getattr(model, name), self.adagrad.squares[name], store.whole, self.threads)
            for name in ("entities", "relations")
        )
        keep = 1 - (drop_threshold(model.dropout) / 2**32)
        terms = model.table.terms
        self.terms = np.array([term[:3] for term in terms], dtype=np.int64)
        self.factors = np.array([term.coefficient * model.scale for term in terms], dtype=np.float64)
        self.kept_factors = self.factors / keep
        self.slope = np.zeros(0)
        self.dim = model.dim

    def run_epoch(self) -> list[Terms]:
        self._set_threads()
        return super().run_epoch()

    def share_cores(self, is_crowded: bool) -> None:
        """Let one thread do the parts of all while others use the cores: no thread waits, and no sum changes."""
        self.running = 1 if is_crowded else self.threads
        self._set_threads()

    def _set_threads(self) -> None:
        of_torch = torch.get_num_threads()
        self.kernels.set_threads(self.running)
        torch.set_num_threads(of_torch)  # numba's first call sets OpenMP's number, which is torch's too

    def restore(self, state: State) -> None:
        """Forget the rows met in steps that are now to come again."""
        super().restore(state)
        for table in (self.entity_table, self.relation_table):
            table.stamps.fill(-1)

    def take_step(self, facts: Tensor, prepared: Prepared, number: int, key: Tensor) -> Terms:
        """Take one step; a loss that is not finite changes nothing."""
        model, kernels = self.model, self.kernels
        examples = self.store.objective.examples(facts[None], model.n_entities, key)[0].numpy()
        if len(self.slope) < len(examples):
            self.slope = np.zeros(len(examples))
        entities, relations, bounded = self.entity_table, self.relation_table, model.bound == "tanh"
        self._find(examples, number)
        parts = self.threads
        squares = [
            kernels.gather(t.weights, t.found, t.count, bounded, t.rows, t.gradients, parts, t.sums)
            for t in (entities, relations)
        ]
        dropped = drop_threshold(model.dropout) if model.training else 0
        factors = self.kept_factors if dropped else self.factors
        slots = entities.slots, relations.slots
        true, false = kernels.slopes(
            examples, len(facts), *slots, entities.rows, relations.rows, self.terms, factors, self.dim,
            model.prior_score, dropped, int(key), self.slope,
        )  # fmt: skip
        penalty, pull = self._penalty()
        terms = terms_of(self.form, len(examples) > len(facts), true, false, penalty, sum(squares))
        if abs(sum(terms.values())) < LARGEST > abs(pull):  # false for NaN too
            kernels.accumulate(
                examples, self.slope, *slots, entities.rows, relations.rows, self.terms, factors, self.dim, dropped,
                int(key), parts, entities.gradients, relations.gradients,
            )  # fmt: skip
            rate, epsilon = self.adagrad.learning_rate, self.adagrad.epsilon
            for t in (entities, relations):
                kernels.adagrad(
                    t.weights, t.squares, t.found, t.count, t.rows, t.gradients, parts, t.push, pull, self.form.decay,
                    bounded, rate, epsilon, self.adagrad.rowwise,
                )  # fmt: skip
        return {name: torch.tensor(value, dtype=torch.float32) for name, value in terms.items()}

    def _find(self, examples: np.ndarray, number: int) -> None:
        if self.entity_table.all_rows:
            return
        for table, columns in ((self.entity_table, (0, 2)), (self.relation_table, (1,))):
            table.reserve(len(columns) * len(examples))
            table.count = 0
            for column in columns:
                table.count = self.kernels.distinct(
                    examples[:, column], table.stamps, table.slots, number, table.found, table.count
                )

    def _penalty(self) -> tuple[float, float]:
        """Return the penalty on the sum of all scores, and the factor of its gradient."""
        entities, relations, (weight, power, _) = self.entity_table, self.relation_table, self.form
        if weight is None:
            return 0.0, 0.0
        total = self.kernels.penalty_gradient(
            self.terms, self.factors, self.dim, entities.sums, relations.sums, entities.push, relations.push
        )
        return weight * abs(total) ** power, weight * float(np.sign(total)) if power == 1 else 2 * weight * total


def _on_large_pages(table: Tensor) -> Tensor:
    """Return a large table in memory that numpy asks the system to back with large pages, where it has them.

    Rows of a large table are met at random, and with small pages the address of each has to be looked up first.
    """
    if table.nbytes < LARGE_TABLE:
        return table
    room: np.ndarray = np.empty(table.shape, dtype=np.float32)
    return torch.from_numpy(room).copy_(table)
