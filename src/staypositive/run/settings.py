"""`Settings`: everything that, with a graph, decides a run.

Its fields are the keywords of `fit` and the flags of `staypositive train`, with their help.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any

from staypositive.errors import SettingError
from staypositive.models import BOUNDS, CLOSED_WORLD, JOINED, MODELS
from staypositive.objectives import OBJECTIVES, Objective, StayPositive, build_objective, objective_options
from staypositive.objectives.objective import option
from staypositive.training import ENGINES, MONITORS, OPTIMISERS, PRECISIONS
from staypositive.typed import misfit, misfit_of

_MADE = {"model": (JOINED,)}
"""What a run may have and a training cannot choose."""


@dataclass(frozen=True)
class Settings:
    """The choices of a run. `None` means: take the objective's or the data's default, as the help says."""

    model: str = option("simple", "the bilinear model", choices=tuple(MODELS))
    objective: Objective = dataclasses.field(default_factory=StayPositive, metadata={"help": "", "choices": None})
    dim: int = option(100, "width of one block of an embedding row")
    slices: int | None = option(
        None, "slices of the tensor: ntn (a relation's own; default 4) and tucker (shared by all; default dim)"
    )
    bound: str | None = option(
        None, "tanh keeps scores in (−I, I), identity does not; default: tanh for stay-positive", choices=BOUNDS
    )
    score_bound: float = option(5.0, "the bound I on scores (tanh alone)")
    prior_score: float | None = option(None, "the prior score ψ; default 0, an even prior")
    prior: float | None = option(None, "the prior as a probability: ψ = logit(prior)")
    closed_world: str | None = option(
        None, "ψ from the density of facts, as the paper writes it or as its logit", choices=CLOSED_WORLD
    )
    dropout: float = option(0.0, "share of the products dropped before the sum, in training")
    init_scale: float | None = option(None, "weights start uniform in ±this; default 6/√dim (1vsall: 0.001)")
    optimiser: str = option("adagrad", "the optimiser", choices=OPTIMISERS)
    learning_rate: float = option(0.1, "the learning rate")
    precision: str = option(
        "float32", "how rows are kept while training; bfloat16 halves them, rounded at random", choices=PRECISIONS
    )
    accumulator: float | None = option(None, "AdaGrad's first sum of squares; default 0.1 (1vsall: 1e-10)")
    batch_size: int = option(1024, "facts a step")
    epochs: int = option(200, "passes over the facts, at most")
    validate_every: int = option(10, "epochs between validations")
    monitor: str | None = option(
        None,
        "what picks the best epoch; posterior: the NLL that it expects, by facts alone; default nll where scores are "
        "log-odds and valid has negatives, else mrr",
        choices=tuple(MONITORS),
    )
    patience: int | None = option(None, "stop after so many validations without improvement")
    seed: int = option(0, "seed of every random draw")
    engine: str = option("auto", "reference (autograd), fused (compiled), or the fastest that fits", choices=ENGINES)
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: int | None = option(None, "CPU threads; default: what torch takes")

    def __post_init__(self) -> None:
        wrong = misfit_of(self)
        if wrong:
            raise SettingError(wrong)
        for field in dataclasses.fields(self):
            choices, value = field.metadata["choices"], getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingError(f"{field.name} must be a finite number, got {value}")
            if choices and value is not None and value not in (*choices, *_MADE.get(field.name, ())):
                raise SettingError(f"{field.name} is one of {', '.join(map(str, choices))}, got {value!r}")
        if self.accumulator is not None and self.accumulator < 0:
            raise SettingError(f"accumulator must not be negative, got {self.accumulator}")
        if not 0 <= self.seed < 2**63:
            raise SettingError(f"a seed is a whole number from 0 and below 2^63, got {self.seed}")
        if self.threads is not None and self.threads < 1:
            raise SettingError(f"threads must be at least 1, got {self.threads}")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for a JSON file; the objective as its name and options."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        options = dataclasses.asdict(self.objective)  # type: ignore[call-overload]  # objectives are dataclasses
        return values | {"objective": {"name": self.objective.name, **options}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Rebuild settings from their JSON form; whatever else comes is a `SettingError`."""
        if not isinstance(data, dict) or not isinstance(data.get("objective"), dict):
            raise SettingError(f"expected settings with an objective among them, got {data!r:.80}")
        unknown = data.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise SettingError(f"there is no setting {min(unknown, key=str)!r}")
        options = dict(data["objective"])
        return cls(**{**data, "objective": _objective(options.pop("name", None), options)})


def make_settings(**changes: Any) -> Settings:
    """Build settings from keywords: fields of `Settings`, and options of the objective, which may go by name.

    >>> make_settings(model="simple", objective="negative-sampling", negatives=10).objective.negatives_per_fact
    10
    """
    core = {field.name for field in dataclasses.fields(Settings)}
    objective = changes.pop("objective", StayPositive.name)
    options = {name: changes.pop(name) for name in list(changes) if name not in core}
    known = {option for name in OBJECTIVES for option in objective_options(name)}
    for name in options.keys() - known:
        near = difflib.get_close_matches(name, core, n=1)
        if near:
            raise SettingError(f"there is no setting {name!r}. Did you mean {near[0]!r}?")
    if not isinstance(objective, Objective):
        objective = _objective(objective, options)
    elif options:
        raise SettingError(f"give {', '.join(options)} to the objective itself, since it came ready-made")
    return Settings(objective=objective, **changes)


def _objective(name: Any, options: dict[str, Any]) -> Objective:
    """Build an objective of options that may come from anywhere."""
    if not isinstance(name, str):
        raise SettingError(f"an objective goes by its name, got {name!r:.80}")
    objective_options(name)  # an unknown name is an error
    for key, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingError(f"{key} must be a finite number, got {value}")
    wrong = misfit(OBJECTIVES[name], options)
    if wrong:
        raise SettingError(f"{wrong} (an option of {name})")
    return build_objective(name, **options)
