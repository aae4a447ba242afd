"""`Settings`: everything that, with a graph, decides a run.

Its fields, the options of models and those of objectives are the keywords of `fit` and the flags of
`staypositive train`, with their help.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from staypositive.errors import SettingError
from staypositive.models import BOUNDS, CLOSED_WORLD, ENSEMBLE, MODELS, ModelOptions, options_class
from staypositive.objectives import OBJECTIVES, Objective, StayPositive, build_objective
from staypositive.options import Applies, check_options, option, text
from staypositive.training import ADAGRADS, ENGINES, MONITORS, OPTIMISERS, PRECISIONS
from staypositive.typed import annotations_of, shown


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence says them; of stay-positive it is said that a preset uses it."""
    said = (f'{name}, which preset "paper" uses,' if name == StayPositive.name else name for name in names)
    return " and ".join(said).rstrip(",")


def _by_objective(what: str, says: str, none: str = "") -> Callable[[], str]:
    def help() -> str:
        owners: dict[Any, list[str]] = {}
        for name, kind in OBJECTIVES.items():
            owners.setdefault(getattr(kind.defaults, what), []).append(name)
        values = (f"{none if value is None else value} ({', '.join(names)})" for value, names in owners.items())
        return f"{says}; default {', '.join(values)}"

    return help


def _with_log_odds() -> str:
    names = (name for name, kind in OBJECTIVES.items() if kind.has_log_odds)
    return f"objectives that read scores as log-odds: {listed(names)}"


_TANH = 'the tanh bound, which preset "paper" (objective stay-positive) uses'
_BOUNDED = Applies(_TANH, "bound", lambda own: own.used("bound") == "tanh")
_WITH_PRIOR = Applies(_with_log_odds, "objective", lambda own: own.objective.has_log_odds)
_ADAGRAD = Applies(f"the optimisers {listed(ADAGRADS)}", "optimiser", lambda own: own.optimiser in ADAGRADS)


@dataclass(frozen=True)
class Settings:
    """The choices of a run. `None` means: take the objective's or the data's default, as the help says."""

    model: str = option("simple", "the bilinear model", choices=MODELS, made=(ENSEMBLE,))
    model_options: ModelOptions = field(default_factory=ModelOptions)
    objective: Objective = field(default_factory=StayPositive)
    dim: int = option(100, "width of one block of an embedding row", least=1)
    bound: str | None = option(
        None, _by_objective("bound", "tanh keeps scores in (−I, I), identity does not"), choices=BOUNDS
    )
    score_bound: float = option(5.0, "the bound I on scores", above=0, applies=_BOUNDED)
    prior_score: float | None = option(None, "the prior score ψ; default 0, an even prior", applies=_WITH_PRIOR)
    prior: float | None = option(
        None, "the prior as a probability: ψ = logit(prior)", above=0, below=1, applies=_WITH_PRIOR
    )
    closed_world: str | None = option(
        None, "ψ from the density of facts, as the paper writes it or as its logit", choices=CLOSED_WORLD,
        applies=_WITH_PRIOR,
    )  # fmt: skip
    dropout: float = option(0.0, "share of the products dropped before the sum, in training", least=0, below=1)
    init_scale: float | None = option(
        None, _by_objective("init_scale", "weights start uniform in ±this", "6/√dim"), above=0
    )
    optimiser: str = option("adagrad", "the optimiser", choices=OPTIMISERS)
    learning_rate: float = option(0.1, "the learning rate", above=0)
    precision: str = option(
        "float32", "how rows are kept while training; bfloat16 halves them, rounded at random", choices=PRECISIONS
    )
    accumulator: float | None = option(
        None, _by_objective("accumulator", "AdaGrad's first sum of squares"), least=0, applies=_ADAGRAD
    )
    batch_size: int = option(1024, "batch size: facts per step", least=1)
    epochs: int = option(200, "maximum number of epochs", least=1)
    validate_every: int = option(10, "epochs between validations", least=1)
    monitor: str | None = option(
        None,
        "what picks the best epoch; posterior: the NLL that it expects, from facts only; default nll where scores "
        "are log-odds and valid has negatives, else mrr",
        choices=MONITORS,
    )
    patience: int | None = option(None, "stop after this number of validations without improvement", least=1)
    seed: int = option(0, "seed of every random draw", least=0, most=2**63 - 1)
    engine: str = option("auto", "reference (autograd), fused (compiled), or the fastest that fits", choices=ENGINES)
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: int | None = option(None, "CPU threads; default: what torch takes", least=1)

    def __post_init__(self) -> None:
        check_options(self)
        kind = options_class(self.model)
        if type(self.model_options) is ModelOptions:
            object.__setattr__(self, "model_options", kind())
        elif type(self.model_options) is not kind:
            raise SettingError(f"{self.model} does not take {self.model_options}; give {kind.__name__}")

    def used(self, name: str) -> Any:
        """Return a setting, or where it is None what the objective wants of it."""
        given = getattr(self, name)
        return getattr(self.objective.defaults, name) if given is None else given

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for a JSON file; the objective as its name and options."""
        options = dataclasses.asdict(self.objective)  # type: ignore[call-overload]  # objectives are dataclasses
        own = {name: getattr(self, name) for name in SETTINGS} | dataclasses.asdict(self.model_options)
        return own | {"objective": {"name": self.objective.name, **options}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Rebuild settings from their JSON form; whatever else comes is a `SettingError`."""
        if not isinstance(data, dict) or not isinstance(data.get("objective"), dict):
            raise SettingError(f"expected settings with an objective among them, got {data!r:.80}")
        known = {name for name, owners in declarations().items() if owners[0].of != "objective"}
        unknown = data.keys() - known - {"objective"}
        if unknown:
            raise SettingError(f"there is no setting {min(unknown, key=str)!r}")
        options = dict(data["objective"])
        if "spread_every" in options:  # its name in older runs
            options["gram_update_interval"] = options.pop("spread_every")
        model = {"model": ENSEMBLE} if data.get("model") == "joined" else {}  # its name in older runs
        return settings_from({**data, **model, "objective": _objective(options.pop("name", None), options)})

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `fit` that give these settings."""
        values = self.as_dict()
        objective = values.pop("objective")
        return {"model": self.model, "objective": objective.pop("name"), **values, **objective}


SETTINGS = {own.name: own for own in dataclasses.fields(Settings) if own.metadata}
"""The fields of `Settings` that are options, by name."""


class Declaration(NamedTuple):
    """An option of the settings, or of a model or an objective."""

    field: dataclasses.Field[Any]
    kind: Any
    """Its annotation."""
    of: str = ""
    """`model` or `objective`, and nothing for the settings'."""
    owner: str = ""
    """The name of that model or objective."""


def declarations() -> dict[str, list[Declaration]]:
    """Return every keyword of `fit`, as of now, with all who declare it: settings first, then models, objectives."""
    owners: list[tuple[str, str, type]] = [("", "", Settings)]
    owners += [("model", name, options_class(name)) for name in MODELS]
    owners += [("objective", name, kind) for name, kind in OBJECTIVES.items()]
    found: dict[str, list[Declaration]] = {}
    for of, owner, kind in owners:
        for own in dataclasses.fields(kind):
            if own.metadata:
                said = Declaration(own, annotations_of(kind)[own.name], of, owner)
                found.setdefault(own.name, []).append(said)
    return found


def make_settings(**changes: Any) -> Settings:
    """Build settings from keywords: fields of `Settings`, and options of the model and of the objective.

    Both may go by name. An option that has no effect with the others is an error.

    >>> make_settings(model="simple", objective="negative-sampling", negatives=10).objective.negatives_per_fact
    10
    """
    settings = settings_from(changes)
    require_used(settings, changes)
    return settings


def settings_from(changes: Mapping[str, Any]) -> Settings:
    """Build settings as `make_settings` does; options of other models and objectives are left out."""
    model, objective = changes.get("model", Settings.model), changes.get("objective", StayPositive.name)
    declared = declarations()
    parts: dict[str, dict[str, Any]] = {"": {}, "model": {}, "objective": {}}
    for name, value in changes.items():
        held = _held(declared, name, model, getattr(objective, "name", objective))
        if name != "objective" and (held or name not in declared):
            parts[held.of if held else "objective"][name] = value
    if not isinstance(objective, Objective):
        objective = _objective(objective, parts["objective"])
    elif parts["objective"]:
        raise SettingError(f"give {', '.join(parts['objective'])} to the objective itself, since it came ready-made")
    kind = options_class(model) if isinstance(model, str) else ModelOptions
    return Settings(model_options=kind(**parts["model"]), objective=objective, **parts[""])


def unused(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return those of the named settings and options that have no effect here, each with where it would apply."""
    objective, declared, said = settings.objective, declarations(), {}
    found = {**vars(objective), **vars(settings), "bound": settings.used("bound"), "objective": objective.name}
    owners = {"": settings, "model": settings.model_options, "objective": objective}
    for name in names:
        held = _held(declared, name, settings.model, objective.name)
        applies: Applies | None = held.field.metadata["applies"] if held else None
        if held and applies and not applies.holds(owners[held.of]):
            said[name] = f"{name} applies to {text(applies.to)}; here {applies.by} is {found[applies.by]}"
        elif not held and name in declared:
            of, plural = declared[name][0].of, "s" if len(declared[name]) > 1 else ""
            where = listed(own.owner for own in declared[name])
            said[name] = f"{name} applies to the {of}{plural} {where}; here {of} is {found[of]}"
    return said


def _held(declared: dict[str, list[Declaration]], name: str, model: Any, objective: Any) -> Declaration | None:
    """Return the declaration of an option that counts with this model and objective, if there is one."""
    owners = (("", ""), ("model", model), ("objective", objective))
    return next((own for own in declared.get(name, ()) if (own.of, own.owner) in owners), None)


def require_used(settings: Settings, given: Mapping[str, Any]) -> None:
    """Refuse what was given and has no effect; None gives nothing."""
    for said in unused(settings, [name for name, value in given.items() if value is not None]).values():
        raise SettingError(said)


def _objective(name: Any, options: Mapping[str, Any]) -> Objective:
    """Build an objective of options that may come from anywhere."""
    if not isinstance(name, str):
        raise SettingError(f"an objective goes by its name, got {shown(name)}")
    declared = declarations()
    for key in options.keys() - declared.keys():
        if near := difflib.get_close_matches(str(key), declared, n=1):
            raise SettingError(f"there is no setting {key!r}. Did you mean {near[0]!r}?")
    return build_objective(name, **options)
