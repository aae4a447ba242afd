"""`Settings`: everything that, with a graph, decides a run.

Its fields are the keywords of `fit` and the flags of `staypositive train`, with their help.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from staypositive.errors import SettingError
from staypositive.models import BOUNDS, CLOSED_WORLD, ENSEMBLE, MODELS, SLICED
from staypositive.objectives import OBJECTIVES, Objective, StayPositive, build_objective, objective_options
from staypositive.options import Applies, check_options, option
from staypositive.training import ADAGRADS, ENGINES, MONITORS, OPTIMISERS, PRECISIONS
from staypositive.typed import shown

_BOUNDED = Applies(
    'the tanh bound, which preset "paper" (objective stay-positive) uses',
    "bound",
    lambda own: own.used_bound == "tanh",
)
_WITH_PRIOR = Applies(
    'objectives that read scores as log-odds: stay-positive, which preset "paper" uses, and negative-sampling',
    "objective",
    lambda own: own.objective.has_log_odds,
)
_SLICED = Applies(f"the models {' and '.join(SLICED)}", "model", lambda own: own.model in SLICED)
_ADAGRAD = Applies(f"the optimisers {' and '.join(ADAGRADS)}", "optimiser", lambda own: own.optimiser in ADAGRADS)


@dataclass(frozen=True)
class Settings:
    """The choices of a run. `None` means: take the objective's or the data's default, as the help says."""

    model: str = option("simple", "the bilinear model", choices=tuple(MODELS), made=(ENSEMBLE,))
    objective: Objective = dataclasses.field(default_factory=StayPositive, metadata={"help": ""})
    dim: int = option(100, "width of one block of an embedding row", least=1)
    slices: int | None = option(
        None,
        "slices of the tensor: ntn (a relation's own; default 4) and tucker (shared by all; default dim)",
        least=1,
        applies=_SLICED,
    )
    bound: str | None = option(
        None, "tanh keeps scores in (−I, I), identity does not; default: tanh for stay-positive", choices=BOUNDS
    )
    score_bound: float = option(5.0, "the bound I on scores", above=0, applies=_BOUNDED)
    prior_score: float | None = option(None, "the prior score ψ; default 0, an even prior", applies=_WITH_PRIOR)
    prior: float | None = option(
        None, "the prior as a probability: ψ = logit(prior)", above=0, below=1, applies=_WITH_PRIOR
    )
    closed_world: str | None = option(
        None,
        "ψ from the density of facts, as the paper writes it or as its logit",
        choices=CLOSED_WORLD,
        applies=_WITH_PRIOR,
    )
    dropout: float = option(0.0, "share of the products dropped before the sum, in training", least=0, below=1)
    init_scale: float | None = option(
        None, "weights start uniform in ±this; default 6/√dim (1vsall, second-moment: 0.001)", above=0
    )
    optimiser: str = option("adagrad", "the optimiser", choices=OPTIMISERS)
    learning_rate: float = option(0.1, "the learning rate", above=0)
    precision: str = option(
        "float32", "how rows are kept while training; bfloat16 halves them, rounded at random", choices=PRECISIONS
    )
    accumulator: float | None = option(
        None,
        "AdaGrad's first sum of squares; default 0.1 (1vsall, second-moment: 1e-10)",
        least=0,
        applies=_ADAGRAD,
    )
    batch_size: int = option(1024, "batch size: facts per step", least=1)
    epochs: int = option(200, "maximum number of epochs", least=1)
    validate_every: int = option(10, "epochs between validations", least=1)
    monitor: str | None = option(
        None,
        "what picks the best epoch; posterior: the NLL that it expects, by facts alone; default nll where scores are "
        "log-odds and valid has negatives, else mrr",
        choices=tuple(MONITORS),
    )
    patience: int | None = option(None, "stop after this number of validations without improvement", least=1)
    seed: int = option(0, "seed of every random draw", least=0, most=2**63 - 1)
    engine: str = option("auto", "reference (autograd), fused (compiled), or the fastest that fits", choices=ENGINES)
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: int | None = option(None, "CPU threads; default: what torch takes", least=1)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def used_bound(self) -> str:
        """The bound that was chosen, or else the objective's own."""
        return self.bound or self.objective.defaults.bound

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
        unknown = data.keys() - SETTINGS.keys()
        if unknown:
            raise SettingError(f"there is no setting {min(unknown, key=str)!r}")
        options = dict(data["objective"])
        if "spread_every" in options:  # its name in older runs
            options["gram_update_interval"] = options.pop("spread_every")
        model = {"model": ENSEMBLE} if data.get("model") == "joined" else {}  # its name in older runs
        return cls(**{**data, **model, "objective": _objective(options.pop("name", None), options)})


SETTINGS = {field.name: field for field in dataclasses.fields(Settings)}
"""The fields of `Settings` by name."""


def make_settings(**changes: Any) -> Settings:
    """Build settings from keywords: fields of `Settings`, and options of the objective, which may go by name.

    An option that has no effect with the others is an error.

    >>> make_settings(model="simple", objective="negative-sampling", negatives=10).objective.negatives_per_fact
    10
    """
    settings = settings_from(changes)
    require_used(settings, changes)
    return settings


def settings_from(changes: Mapping[str, Any]) -> Settings:
    """Build settings as `make_settings` does, whether each of them has an effect or not."""
    core = {name: value for name, value in changes.items() if name in SETTINGS and name != "objective"}
    options = {name: value for name, value in changes.items() if name not in SETTINGS}
    objective = changes.get("objective", StayPositive.name)
    if not isinstance(objective, Objective):
        objective = _objective(objective, options)
    elif options:
        raise SettingError(f"give {', '.join(options)} to the objective itself, since it came ready-made")
    return Settings(objective=objective, **core)


def unused(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return those of the named settings and options that have no effect here, each with where it would apply."""
    objective = settings.objective
    options = {field.name: field for field in dataclasses.fields(objective)}  # type: ignore[arg-type]
    found = {**vars(objective), **vars(settings), "bound": settings.used_bound, "objective": objective.name}
    said = {}
    for name in names:
        field, owner = (SETTINGS[name], settings) if name in SETTINGS else (options[name], objective)
        applies: Applies | None = field.metadata.get("applies")
        if applies is not None and not applies.holds(owner):
            said[name] = f"{name} applies to {applies.to}; here {applies.by} is {found[applies.by]}"
    return said


def require_used(settings: Settings, given: Mapping[str, Any]) -> None:
    """Refuse what was given and has no effect; None gives nothing."""
    for said in unused(settings, [name for name, value in given.items() if value is not None]).values():
        raise SettingError(said)


def _objective(name: Any, options: Mapping[str, Any]) -> Objective:
    """Build an objective of options that may come from anywhere."""
    if not isinstance(name, str):
        raise SettingError(f"an objective goes by its name, got {shown(name)}")
    for key in options.keys() - objective_options(name).keys():
        owners = [other for other in OBJECTIVES if key in objective_options(other)]
        if owners:
            where = " or ".join(owners).replace(StayPositive.name, f'{StayPositive.name}, which preset "paper" uses')
            raise SettingError(f"{key} applies to the objective {where}; here objective is {name}")
        near = difflib.get_close_matches(str(key), [*SETTINGS, *objective_options(name)], n=1)
        if near:
            raise SettingError(f"there is no setting {key!r}. Did you mean {near[0]!r}?")
    return build_objective(name, **options)
