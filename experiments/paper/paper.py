"""The paper's experiments as data: `paper.toml`, checked and given names."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.data import read_data
from experiments.paper.packed_runs import Schedule
from staypositive.errors import InputError
from staypositive.run.settings import Settings, make_settings
from staypositive.tuning import paper_space


@dataclass(frozen=True)
class Rule:
    """How long to train and what to pick by: what the paper leaves open."""

    batches: int
    min_gain: float
    epochs: int
    validate_every: int
    patience: int
    finalists: int
    final_epochs: int
    final_validate_every: int
    final_patience: int
    seeds: tuple[int, ...]
    valid_facts: int
    halvings: tuple[tuple[int, float], ...] = ()
    monitor: str | None = None
    """`mrr` chooses by the MRR of validation facts also where there are labels; None leaves it to the data."""

    def batch_size(self, facts: int) -> int:
        """Return the batch size that gives the rule's number of batches per epoch."""
        return -(-facts // self.batches)

    def first_round(self) -> Schedule:
        """Return how each setting of the grid trains."""
        return Schedule(self.epochs, self.validate_every, self.patience, self.min_gain, self.halvings)

    def second_round(self) -> Schedule:
        """Return how the finalists train."""
        return Schedule(self.final_epochs, self.final_validate_every, self.final_patience, self.min_gain)


@dataclass(frozen=True)
class Cell:
    """One row of a table on one dataset."""

    name: str
    model: str
    objective: str
    dataset: str
    published: tuple[tuple[str, float], ...] = ()

    @property
    def slug(self) -> str:
        """A name for files."""
        return f"{self.dataset}-{self.name}"


@dataclass(frozen=True)
class Paper:
    """Everything `paper.toml` says."""

    rule: Rule
    quick: dict[str, Any]
    grids: dict[str, dict[str, list[Any]]]
    table2: tuple[Cell, ...]
    extended: tuple[Cell, ...]
    ablations: tuple[dict[str, Any], ...]
    ablation_seeds: dict[str, int]
    own_rules: dict[str, dict[str, Any]]
    """What the rule of an objective, of the extension, of a row or of ablations has in place of the common one."""

    def rule_of(self, cell: Cell) -> Rule:
        """Return the rule that a cell is trained by."""
        own = self.own_rules.get(cell.objective, {})
        if cell in self.extended:
            own = own | self.own_rules.get("extended", {})
        return dataclasses.replace(self.rule, **own | self.own_rules.get(cell.name, {}))

    def rule_of_ablations(self, cell: Cell) -> Rule:
        """Return the rule that variants of a cell are trained by."""
        rule = dataclasses.replace(self.rule_of(cell), **self.own_rules.get("ablations", {}))
        return dataclasses.replace(rule, seeds=rule.seeds[: self.ablation_seeds[cell.dataset]])

    def settings(self, cell: Cell, grid: str, batch_size: int, seed: int = 0) -> list[Settings]:
        """Return every setting of a grid (`full` or `subset`) for a cell, in a fixed order."""
        own = self.grids["subset"] | self.grids.get(f"subset of {cell.name}", {})
        choices = {"full": self.grids[cell.objective], "quick": self.quick[cell.objective], "subset": own}[grid]
        base = {"model": cell.model, "objective": cell.objective, "batch_size": batch_size, "seed": seed}
        return [
            make_settings(**base, **dict(zip(choices, values, strict=True)))
            for values in itertools.product(*choices.values())
        ]

    def quickened(self) -> Paper:
        """Return the same with one setting per cell, one seed and few epochs: for two cores, in minutes."""
        q = self.quick
        rule = dataclasses.replace(
            self.rule, epochs=q["epochs"], validate_every=q["validate_every"], finalists=1, final_epochs=q["epochs"],
            final_validate_every=q["validate_every"], seeds=self.rule.seeds[:1],
        )  # fmt: skip
        return dataclasses.replace(self, rule=rule, own_rules={})

    def choosing_by_mrr(self) -> Paper:
        """Return the same, with settings and epochs chosen by the MRR of validation facts everywhere."""
        return dataclasses.replace(self, rule=dataclasses.replace(self.rule, monitor="mrr"))

    def cells(self, names: list[str] | None = None, datasets: list[str] | None = None) -> list[Cell]:
        """Return the cells of Table 2 and its extension, only those of some rows and datasets if they are named."""
        cells = [*self.table2, *self.extended]
        for wanted, known in ((names, {c.name for c in cells}), (datasets, {c.dataset for c in cells})):
            unknown = [name for name in wanted or [] if name not in known]
            if unknown:
                raise InputError(
                    f"{', '.join(unknown)} is not in the paper's table; known: {', '.join(sorted(known))}"
                )
        return [c for c in cells if (not names or c.name in names) and (not datasets or c.dataset in datasets)]


@cache
def load_paper() -> Paper:
    """Read `paper.toml`."""
    data = read_data("paper")
    plain = {name: value for name, value in data["rule"].items() if not isinstance(value, dict)}
    rule = Rule(**{**plain, "seeds": tuple(plain["seeds"])})
    own_rules = {name: dict(own) for name, own in data["rule"].items() if isinstance(own, dict)}
    for own in own_rules.values():
        if "halvings" in own:
            own["halvings"] = tuple((epoch, share) for epoch, share in own["halvings"])
    datasets = data["table2"]["datasets"]

    def cells(rows: list[dict[str, Any]]) -> tuple[Cell, ...]:
        return tuple(
            Cell(row["name"], row["model"], row["objective"], dataset, tuple(row.get(dataset, {}).items()))
            for dataset in datasets
            for row in rows
        )

    subset = {name: choices for name, choices in data["subset"].items() if isinstance(choices, list)}
    own = {f"subset of {name}": choices for name, choices in data["subset"].items() if isinstance(choices, dict)}
    grids = {"subset": subset, **own}
    for objective in ("stay-positive", "negative-sampling"):
        searched = paper_space(objective).searched
        grids[objective] = {name: list(values) for name, values in searched.items() if isinstance(values, tuple)}
    rows, more = data["table2"]["rows"], data["extended"]["rows"]
    variants, seeds = tuple(data["ablations"]["variants"]), data["ablations"]["seeds"]
    return Paper(rule, data["quick"], grids, cells(rows), cells(more), variants, seeds, own_rules)


@cache
def published_by_others(kind: str) -> tuple[dict[str, Any], ...]:
    """Return published figures of other systems: of `ranking`, `probabilities` or `sets`, by dataset and metric."""
    return tuple(read_data("published")[kind])
