"""The plan of some steps, worked out on the device before the first of them: examples, distinct rows, slots.

A step's distinct rows are numbered from 0, in the order of their ids: a row's number is its *slot*. All steps are
planned at once by one sort of (step, id), so that nothing has to be counted, claimed or waited for while they run.
"""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.hashing import mix, mix_all
from staypositive.training.task import TrainingTask

FIRST_IN_STEP = -(2**31)
"""The sign bit of a slot: this example is the first of its step to use the row."""


class StepPlan:
    """Room for the plans of `steps` steps, one for each of some seeds; the addresses never change.

    `ids` and `slots` hold, for each plan, the examples' heads, relations and tails; `found` the distinct rows, step
    after step, and `starts` where each step's begin. An objective that touches all rows has rows as slots,
    and in `found` the number of the last step with an example of each row, which the step itself writes.
    """

    def __init__(self, task: TrainingTask, batch_size: int, steps: int, seeds: list[int]) -> None:
        self.objective, self.batch_size, self.seeds = task.objective, batch_size, seeds
        self.step_size = batch_size * (1 + self.objective.negatives_per_fact)
        self.size = steps * self.step_size
        tables = {"entities": task.model.entities, "relations": task.model.relations}
        self.rows = {name: len(table) for name, table in tables.items()}
        self.all_rows = self.objective.touches_all_rows

        def room(*shape: int) -> Tensor:
            return torch.zeros(len(seeds), *shape, dtype=torch.int32, device=task.model.entities.device)

        self.ids = room(3, self.size)
        self.slots = self.ids if self.all_rows else room(3, self.size)
        mentions = {"entities": 2 * self.size, "relations": self.size}
        places = self.rows if self.all_rows else mentions
        self.found = {name: room(count) for name, count in places.items()}
        self.starts = room(2, steps + 1)

    def most_rows(self, table: str) -> int:
        mentions = self.step_size * (2 if table == "entities" else 1)
        return self.rows[table] if self.all_rows else min(mentions, self.rows[table])

    def fill(self, plan: int, facts: Tensor, steps_before: Tensor) -> None:
        """Plan the steps through these facts, shape (n, 3), after a number of others; the last step may be short."""
        full, rest = divmod(len(facts), self.batch_size)
        steps = full + bool(rest)
        numbers = steps_before + torch.arange(steps, device=facts.device)
        keys = mix_all(numbers + mix(self.seeds[plan]))
        parts = [(facts[: full * self.batch_size].view(full, self.batch_size, 3), keys[:full])] if full else []
        parts += [(facts[full * self.batch_size :][None], keys[full:])] if rest else []
        triples = torch.cat(
            [self.objective.examples(part, self.rows["entities"], key).view(-1, 3) for part, key in parts]
        )
        n = len(triples)
        self.ids[plan, :, :n] = triples.T
        if self.all_rows:
            return
        heads, relations, tails = triples.unbind(1)
        step_of = torch.arange(n, device=facts.device) // self.step_size
        slots = self._number(plan, "entities", torch.stack([heads, tails], 1), step_of, steps)
        self.slots[plan, 0, :n], self.slots[plan, 2, :n] = slots.unbind(1)
        self.slots[plan, 1, :n] = self._number(plan, "relations", relations[:, None], step_of, steps)[:, 0]

    def _number(self, plan: int, table: str, ids: Tensor, step_of: Tensor, steps: int) -> Tensor:
        """Fill the distinct rows of a table and where each step's begin; return slots, shape as ids (n, m)."""
        rows = self.rows[table]
        keys = (ids + (step_of * rows)[:, None]).flatten()
        if steps * rows < 2**31:
            keys = keys.to(torch.int32)  # sorts in half the time
        ordered, places = keys.sort()
        is_first = torch.ones_like(ordered, dtype=torch.bool)
        torch.ne(ordered[1:], ordered[:-1], out=is_first[1:])
        number = is_first.cumsum(0) - 1
        starts = self.starts[plan, 0 if table == "entities" else 1]
        step_starts = torch.arange(steps, device=ids.device) * (self.step_size * ids.shape[1])
        starts[:steps] = number[step_starts]
        starts[steps:] = number[-1] + 1
        self.found[table][plan].scatter_(0, number, (ordered % rows).to(torch.int32))
        slot = number.to(torch.int32) - starts[ordered // rows]
        slots = torch.empty_like(slot).scatter_(0, places, torch.where(is_first, slot + FIRST_IN_STEP, slot))
        return slots.view_as(ids)
