"""What an epoch of stay-positive training costs on some GPUs: bytes moved, bytes sent, memory, time.

Entities are cut into ranges, one a device, with their AdaGrad sums; relations lie on every device. Each device takes
a batch of its own share of the facts, asks the others for the rows of its distinct entities, and sends their
gradients back. The penalty needs the sum of the rows alone (Theorem 1), one vector; and no negative is drawn, so that
nothing else is ever sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from staypositive.errors import SettingError
from staypositive.models import build_model
from staypositive.planning.costs import Costs

COLLECTIVES = 4
"""Exchanges a step: ids asked for, their rows, their gradients, and relations' gradients with the summed rows."""
ID_BYTES = 8


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
    """What is trained, and how."""

    model: str = "simple"
    dim: int = 100
    batch_size: int = 65536
    """Facts a step, on each device."""
    optimiser: str = "adagrad"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if min(self.dim, self.batch_size) < 1:
            raise SettingError("dim and the batch size must each be at least 1")
        if self.optimiser not in ("adagrad", "adagrad-rowwise") or self.precision not in ("float32", "bfloat16"):
            raise SettingError("the plan knows adagrad and adagrad-rowwise, with float32 and bfloat16")

    @property
    def shared_numbers(self) -> int:
        """Numbers that all relations share."""
        return sum(table.numel() for table in build_model(self.model, 1, 1, self.dim).shared().values())

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers a row of an entity and of a relation has."""
        model = build_model(self.model, 1, 1, self.dim)
        return model.entity_width(), model.relation_width()

    def row_bytes(self, width: int) -> int:
        """Bytes of a row with what the optimiser keeps of it."""
        weights = width * (4 if self.precision == "float32" else 2)
        return weights + (4 * width if self.optimiser == "adagrad" else 4)


@dataclass(frozen=True)
class Plan:
    """What is predicted for so many GPUs; bytes are for the device that has most."""

    gpus: int
    state_bytes: int
    """Tables and optimiser state: exact."""
    peak_bytes: float
    moved_bytes: float
    """In the device's memory, a step."""
    sent_bytes: float
    """To other devices, a step."""
    compute_seconds: float
    """A step, without the exchange."""
    exchange_seconds: float
    steps: int
    """An epoch."""
    triples: int
    fits: bool

    @property
    def epoch_seconds(self) -> float:
        """One pass over all facts."""
        return self.steps * (self.compute_seconds + self.exchange_seconds)

    @property
    def triples_per_second(self) -> float:
        """Facts an epoch, over its time."""
        return self.triples / self.epoch_seconds


def distinct_rows(draws: float, kinds: int) -> float:
    """Return how many of some kinds are met in so many draws by the power law number = |kinds|·u², u uniform.

    A kind at place x of (0, 1) has density f(x) = 1/(2√x), and is met with probability 1 − exp(−λ·f(x)), λ draws a
    kind; the mean over x is 1 − 2·E₃(λ/2), E₃ the exponential integral.

    >>> round(distinct_rows(10, 10**9), 4), distinct_rows(10**9, 200)
    (10.0, 200.0)
    """
    from scipy.special import expn

    return float(min(draws, kinds * (1 - 2 * float(expn(3, draws / kinds / 2)))))


def plan_training(shape: Shape, training: Training, gpus: int, costs: Costs) -> Plan:
    """Predict an epoch on so many GPUs."""
    if gpus < 1:
        raise SettingError(f"at least one GPU is needed, got {gpus}")
    entity_width, relation_width = training.widths
    facts = -(-shape.triples // gpus)
    batch = min(training.batch_size, facts)
    entities = distinct_rows(2 * batch, shape.entities)
    relations = distinct_rows(batch, shape.relations)
    moved = 16 * (entities * entity_width + relations * relation_width) + 12 * batch
    gathered = 4 * batch * (2 * entity_width + relation_width)
    compute = (
        costs.seconds_a_step
        + batch * costs.seconds_a_fact
        + gathered * costs.seconds_a_gathered_byte
        + moved * costs.seconds_a_moved_byte
    )
    sent = _sent_bytes(entities, entity_width, relations, relation_width, gpus)
    state = -(-shape.entities // gpus) * training.row_bytes(entity_width)
    state += shape.relations * training.row_bytes(relation_width) + 8 * training.shared_numbers
    peak = (
        costs.copies_of_state * state
        + costs.bytes_a_fact * facts
        + costs.bytes_a_planned_fact * min(facts, costs.planned_facts)
    )
    return Plan(
        gpus,
        state,
        peak,
        moved,
        sent,
        compute,
        _exchange_seconds(sent, gpus, costs),
        steps=-(-facts // batch),
        triples=shape.triples,
        fits=peak <= costs.device_bytes,
    )


def _sent_bytes(entities: float, entity_width: int, relations: float, relation_width: int, gpus: int) -> float:
    """Return what a device sends a step: ids and gradients of rows of others, rows for others, and its sums."""
    elsewhere = 1 - 1 / gpus
    rows = elsewhere * entities * (2 * 4 * entity_width + ID_BYTES)
    return rows + 2 * elsewhere * 4 * (relations * relation_width + entity_width)


def _exchange_seconds(sent: float, gpus: int, costs: Costs) -> float:
    """Return how long a device sends; what goes to other machines passes the network, while the rest is sent."""
    if gpus == 1:
        return 0.0
    beyond = max(0, gpus - costs.devices_a_machine) / (gpus - 1)
    within = sent * (1 - beyond) / costs.link_bytes_per_second
    return COLLECTIVES * costs.seconds_a_collective + max(within, sent * beyond / costs.network_bytes_per_second)
