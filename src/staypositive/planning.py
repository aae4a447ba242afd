"""What an epoch of stay-positive training costs on some GPUs: bytes moved, bytes sent, memory, time.

A model of costs fitted to measured runs; its constants are in `planning.json`, with their provenance.

The processes and what they send are `staypositive.sharded`'s: entity rows are dealt to them with their AdaGrad sums,
relations lie on every one. Each takes a share of the batch, asks the others for the rows of its distinct entities,
and sends their gradients back; the penalty needs only the sum of all rows (Theorem 1), one vector.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from staypositive.errors import SettingError
from staypositive.models import BilinearModel, build_model
from staypositive.objectives import Objective, Statistic, StayPositive

COSTS_FILE = Path(__file__).with_suffix(".json")
COLLECTIVES = 6
"""Per step: counts of ids, ids, rows, gradients of rows, the sum of all rows, gradients of the relations."""
ID_BYTES, COUNT_BYTES, GRADIENT_BYTES = 4, 8, 4
SUMS: dict[Statistic, Callable[[int], int]] = {
    Statistic.NONE: lambda width: 0,
    Statistic.SUM: lambda width: width,
    Statistic.GRAM: lambda width: width**2,
}
"""Numbers that a step adds up over the processes for what it knows of all rows; their gradients are as many."""


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes. The first seven are fitted to measured runs on one GPU, the rest are data-sheet figures."""

    seconds_per_step: float
    """Launching a step's kernels."""
    seconds_per_fact: float
    """Shuffling and numbering one fact."""
    seconds_per_gathered_byte: float
    """Reading a fact's three rows and adding to their gradients, through the cache."""
    seconds_per_moved_byte: float
    """Reading and writing weights and AdaGrad's sums of a step's distinct rows, in the device's memory."""
    copies_of_state: float
    """How many times the engine holds the tables."""
    bytes_per_fact: float
    """Facts and their order, which stay on the device."""
    bytes_per_planned_fact: float
    """The plan of the steps ahead, for at most `planned_facts` at once."""
    planned_facts: int
    device_bytes: float
    link_bytes_per_second: float
    """Between devices of one machine, in one direction."""
    network_bytes_per_second: float
    """Between machines, for each device, in one direction."""
    devices_per_machine: int
    seconds_per_collective: float
    """What an exchange between devices takes however little is sent."""


def cost_terms(
    *, batch: Any, widths: tuple[Any, Any], moved_bytes: Any, state_bytes: Any, facts: Any, planned_facts: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the constants are multiplied by, under their names: for the seconds per step, for the peak bytes.

    `widths` are those of entity and relation rows, `moved_bytes` is per step. Numbers, or arrays with one per run.
    """
    seconds = {
        "seconds_per_step": 1.0,
        "seconds_per_fact": batch,
        "seconds_per_gathered_byte": 4 * batch * (2 * widths[0] + widths[1]),
        "seconds_per_moved_byte": moved_bytes,
    }
    planned = np.minimum(facts, planned_facts)
    return seconds, {"copies_of_state": state_bytes, "bytes_per_fact": facts, "bytes_per_planned_fact": planned}


@cache
def stored() -> dict[str, Any]:
    """Return what the file holds: `costs`, `provenance`, `graphs` and `published`."""
    found: dict[str, Any] = json.loads(COSTS_FILE.read_text("utf-8"))
    return found


def stored_costs() -> Costs:
    return Costs(**stored()["costs"])


@dataclass(frozen=True)
class Shape:
    """A graph by its sizes."""

    entities: int
    relations: int
    triples: int

    def __post_init__(self) -> None:
        if min(self.entities, self.relations, self.triples) < 1:
            raise SettingError("entities, relations and triples must each be at least 1")


@dataclass(frozen=True)
class Training:
    model: str = "simple"
    dim: int = 100
    batch_size: int = 65536
    """Facts per step, on each device."""
    optimiser: str = "adagrad"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if min(self.dim, self.batch_size) < 1:
            raise SettingError("dim and the batch size must each be at least 1")
        if self.optimiser not in ("adagrad", "adagrad-rowwise") or self.precision not in ("float32", "bfloat16"):
            raise SettingError("the plan knows adagrad and adagrad-rowwise, with float32 and bfloat16")

    @property
    def built(self) -> BilinearModel:
        """The model, with one entity and one relation."""
        return build_model(self.model, 1, 1, self.dim)

    @property
    def shared_numbers(self) -> int:
        """Numbers that all relations share."""
        return sum(table.numel() for table in self.built.shared().values())

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers per entity and per relation."""
        return self.built.entity_width(), self.built.relation_width()

    @property
    def weight_bytes(self) -> int:
        """Bytes per number of a row."""
        return 4 if self.precision == "float32" else 2

    def row_bytes(self, width: int) -> int:
        """Bytes of a row with what the optimiser keeps of it."""
        return width * self.weight_bytes + (4 * width if self.optimiser == "adagrad" else 4)


@dataclass(frozen=True)
class Plan:
    """What is predicted for a number of GPUs; bytes are for the device that has most."""

    gpus: int
    state_bytes: int
    """Tables and optimiser state: exact."""
    peak_bytes: float
    moved_bytes: float
    """In the device's memory, per step."""
    sent_bytes: float
    """Handed to collectives, per step."""
    compute_seconds: float
    """Per step, without the exchange."""
    exchange_seconds: float
    steps: int
    """Per epoch."""
    triples: int
    fits: bool

    @property
    def epoch_seconds(self) -> float:
        return self.steps * (self.compute_seconds + self.exchange_seconds)

    @property
    def triples_per_second(self) -> float:
        return self.triples / self.epoch_seconds


def distinct_rows(draws: float, kinds: int) -> float:
    """Return how many of some kinds are met in some draws by the power law number = |kinds|·u², u uniform.

    A kind at place x of (0, 1) has density f(x) = 1/(2√x), and is met with probability 1 − exp(−λ·f(x)), λ draws per
    kind; the mean over x is 1 − 2·E₃(λ/2), E₃ the exponential integral.

    >>> round(distinct_rows(10, 10**9), 4), distinct_rows(10**9, 200)
    (10.0, 200.0)
    """
    from scipy.special import expn

    return float(min(draws, kinds * (1 - 2 * float(expn(3, draws / kinds / 2)))))


def plan_training(shape: Shape, training: Training, gpus: int, costs: Costs) -> Plan:
    if gpus < 1:
        raise SettingError(f"at least one GPU is needed, got {gpus}")
    widths = training.widths
    facts = -(-shape.triples // gpus)
    batch = min(training.batch_size, facts)
    rows = distinct_rows(2 * batch, shape.entities), distinct_rows(batch, shape.relations)
    moved = 16 * sum(count * width for count, width in zip(rows, widths, strict=True)) + 12 * batch
    state = -(-shape.entities // gpus) * training.row_bytes(widths[0])
    state += shape.relations * training.row_bytes(widths[1]) + 8 * training.shared_numbers
    seconds, memory = cost_terms(
        batch=batch, widths=widths, moved_bytes=moved, state_bytes=state, facts=facts,
        planned_facts=costs.planned_facts,
    )  # fmt: skip
    peak = float(sum(getattr(costs, name) * term for name, term in memory.items()))
    sent = sent_bytes(shape, training, gpus)
    return Plan(
        gpus,
        state,
        peak,
        moved,
        sum(sent.values()),
        compute_seconds=sum(getattr(costs, name) * term for name, term in seconds.items()),
        exchange_seconds=_exchange_seconds(sent, gpus, costs),
        steps=-(-facts // batch),
        triples=shape.triples,
        fits=peak <= costs.device_bytes,
    )


def sent_bytes(
    shape: Shape, training: Training, processes: int, objective: Objective | None = None
) -> dict[str, float]:
    """Return the bytes that a process hands to collectives per step, by purpose, as `World.sent` counts them.

    `rows`: ids asked for, rows and their gradients, from and to other processes. `sums`: what the objective knows of
    all rows. `gradients`: of that, and of the batch's relations, or of all.
    """
    objective = objective or StayPositive()
    if objective.statistic not in SUMS:
        raise SettingError(f"sharded training takes no objective that needs every row, got {objective.name}")
    if processes == 1:
        return dict.fromkeys(("rows", "sums", "gradients"), 0.0)
    directions = 1 + objective.is_reciprocal
    batch = min(training.batch_size, -(-directions * shape.triples // processes))
    own = distinct_rows(2 * batch, shape.entities)
    drawn = objective.negatives_per_fact * batch
    own += (shape.entities - own) * -math.expm1(-drawn / shape.entities)
    row_bytes = ID_BYTES + training.widths[0] * (training.weight_bytes + GRADIENT_BYTES)
    kinds = directions * shape.relations
    relations = kinds if objective.touches_all_rows else distinct_rows(processes * batch, kinds)
    replicated = relations * training.widths[1] + training.shared_numbers
    known = SUMS[objective.statistic](training.built.entity_rows().shape[1])
    return {
        "rows": (1 - 1 / processes) * own * row_bytes + COUNT_BYTES * (processes - 1),
        "sums": 4.0 * known,
        "gradients": GRADIENT_BYTES * (replicated + known),
    }


def _exchange_seconds(sent: dict[str, float], gpus: int, costs: Costs) -> float:
    """Return how long a device sends, sums by a ring; what goes to other machines passes the network meanwhile."""
    if gpus == 1:
        return 0.0
    passed = sent["rows"] + 2 * (1 - 1 / gpus) * (sent["sums"] + sent["gradients"])
    beyond = max(0, gpus - costs.devices_per_machine) / (gpus - 1)
    within = passed * (1 - beyond) / costs.link_bytes_per_second
    return COLLECTIVES * costs.seconds_per_collective + max(within, passed * beyond / costs.network_bytes_per_second)
