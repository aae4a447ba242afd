"""Engines: one epoch over the facts, for one run or for several side by side. The loop around them knows epochs only.

`SteppedEngine` takes one step after the other. `AutogradEngine` defines what a step is: plain autograd on the rows
that a store fetches. A faster step must lead to the same weights, to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from staypositive.errors import SettingError
from staypositive.models import BilinearModel, evaluating
from staypositive.models.hashing import step_keys
from staypositive.objectives import LogisticForm
from staypositive.training.state import State, copy_into, under, within
from staypositive.training.stores import RowStore
from staypositive.training.task import Prepared

Terms = dict[str, Tensor]
Number = TypeVar("Number", float, Tensor)


class Engine(ABC):
    """What the loop drives."""

    name: str
    """Which kind of steps it takes, e.g. `fused-cpu`."""
    models: list[BilinearModel]
    """The models in training: one, or those of several runs."""
    batches: int
    """The number of steps per epoch."""

    @property
    def model(self) -> BilinearModel:
        """The model of a single run."""
        (model,) = self.models
        return model

    @abstractmethod
    def run_epoch(self) -> list[Terms]:
        """Go once through all facts; return each run's terms, their means per fact, on the device.

        A step whose loss is not finite changes nothing, and makes the mean of its term not finite.
        """

    def mean_scores(self) -> list[float]:
        found = []
        for model in self.models:
            with evaluating(model):
                found.append(float(model.mean_score()))
        return found

    def keep(self, chosen: Sequence[int]) -> None:
        """Continue with some of the runs, by their numbers; the models of the others stay as they are."""
        raise SettingError(f"{self.name} trains one run")

    def call_between_steps(self, hook: Callable[[], None]) -> None:
        return

    def share_cores(self, is_crowded: bool) -> None:
        """Hear whether other programs use the cores; an engine may use fewer where that changes no result."""
        return

    def state(self) -> State:
        """Return all that the next epoch depends on: weights, the optimiser's state, where the random draws stand.

        The tensors may be the engine's own: keep a copy of them, not them.
        """
        raise SettingError(f"{self.name} cannot save its state, so it cannot train with a checkpoint")

    def restore(self, state: State) -> None:
        """Continue from where `state` was taken, by this engine or by one that was built alike."""
        raise SettingError(f"{self.name} cannot resume from a checkpoint")


class SteppedEngine(Engine):
    """One run, step by step; a subclass says what a step is.

    Facts in memory stay on the model's device; shuffling, sampling, distinct rows and updates all happen there, and
    nothing waits for the device within an epoch.
    """

    def __init__(self, store: RowStore) -> None:
        self.store, task = store, store.task
        self.models, self.objective, self.optimiser = [task.model], task.objective, task.optimiser
        self.facts, self.batch_size, self.batches, self.seed = task.source(), task.batch_size, task.batches, task.seed
        self.generator = torch.Generator(self.facts.device).manual_seed(self.seed)
        self.steps = 0
        self._after_step: Callable[[], None] = lambda: None

    @abstractmethod
    def take_step(self, facts: Tensor, prepared: Prepared, number: int, key: Tensor) -> Terms:
        """Update the tables; return the terms of the loss before the step. `key` has shape (1,)."""

    def run_epoch(self) -> list[Terms]:
        self.model.train()
        totals: Terms = {}
        for facts, prepared in self.facts.batches(self.batch_size, self.generator):
            share = len(facts) if self.objective.averages else 1
            for name, term in self.step(facts, prepared).items():
                totals[name] = totals.get(name, 0) + term * share
            self._after_step()
        return [{name: total / len(self.facts) for name, total in totals.items()}]

    def step(self, facts: Tensor, prepared: Prepared | None = None) -> Terms:
        """Take one step on some facts, shape (n, 3); return the terms of its loss before the step."""
        number, key = self.steps, step_keys(self.seed, self.steps, 1, facts.device)
        self.steps += 1
        return self.take_step(facts, prepared or {}, number, key)

    def mean_scores(self) -> list[float]:
        """Ask the store, which knows where all rows are."""
        with evaluating(self.model):
            return [self.store.mean_score()]

    def call_between_steps(self, hook: Callable[[], None]) -> None:
        self._after_step = hook

    def state(self) -> State:
        return {
            **under("model", self.model.state_dict()),
            **under("optimiser", self.optimiser.state()),
            **self.store.state(),
            "generator": self.generator.get_state(),
            "steps": torch.tensor(self.steps),
        }

    def restore(self, state: State) -> None:
        """Continue from where `state` was taken; tables stay where they are in memory."""
        copy_into(under("model", self.model.state_dict()), state)
        self.optimiser.restore(within("optimiser", state))
        self.store.restore(state)
        self.generator.set_state(state["generator"])
        self.steps = int(state["steps"])


class AutogradEngine(SteppedEngine):
    """The reference: the objective's terms on the rows that the store fetched, differentiated by autograd."""

    def take_step(self, facts: Tensor, prepared: Prepared, number: int, key: Tensor) -> Terms:
        store = self.store
        fetched = store.fetch(facts, prepared, key)
        with fetched.masks:
            terms = store.share(store.objective.terms(store.model, fetched.batch))
        loss = torch.stack(list(terms.values())).sum()
        gradients: Sequence[Tensor] = torch.autograd.grad(loss, fetched.leaves, retain_graph=store.reuses_graph)
        terms, gradients = store.collect({name: term.detach() for name, term in terms.items()}, gradients)
        finite = torch.isfinite(torch.stack(list(terms.values())).sum())  # on the device: masked, not waited for
        store.optimiser.begin_step(key[0])
        store.push(fetched, [torch.where(finite, part, torch.zeros_like(part)) for part in gradients])
        return terms


class EnginesInTurn(Engine):
    """Several runs, of which each goes through an epoch after the other."""

    name = "in-turn"

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines, self.batches = list(engines), engines[0].batches
        self.models = [engine.model for engine in engines]

    def run_epoch(self) -> list[Terms]:
        return [terms for engine in self.engines for terms in engine.run_epoch()]

    def keep(self, chosen: Sequence[int]) -> None:
        self.engines = [self.engines[run] for run in chosen]
        self.models = [engine.model for engine in self.engines]


def terms_of(
    form: LogisticForm, has_negatives: bool, true: Number, false: Number, penalty: Number, squares: Number
) -> dict[str, Number]:
    """Return the terms of a loss in logistic form by the names that its objective gives them."""
    terms = {"facts": true}
    if form.penalty is not None:
        terms["penalty"] = penalty
    if has_negatives:
        terms["negatives"] = false
    return terms | ({"l2": squares * (form.decay / 2)} if form.decay else {})
