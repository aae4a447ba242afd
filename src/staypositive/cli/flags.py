"""Flags that come from the settings, so that a new setting or objective has its flag at once."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import typer

from staypositive.objectives import OBJECTIVES, objective_options
from staypositive.options import described
from staypositive.run import Settings

if TYPE_CHECKING:
    ObjectiveName: TypeAlias = str
else:  # the names that exist, so that --help lists them
    ObjectiveName = Literal[tuple(OBJECTIVES)]


def with_settings_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command one flag for each field of `Settings` and each option of an objective."""
    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    flags = {f.name: _settings_flag(f) for f in dataclasses.fields(Settings) if f.name != "objective"}
    owners: dict[str, list[str]] = {}
    for name in OBJECTIVES:
        for option in objective_options(name):
            owners.setdefault(option, []).append(name)
    for option, names in owners.items():
        flags[option] = _objective_flag(option, names)

    def generated(**arguments: Any) -> None:
        command(**arguments)

    parameters = [*kept, *flags.values()]
    generated.__doc__ = command.__doc__
    generated.__name__ = command.__name__
    generated.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    generated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return generated


def _objective_flag(name: str, objectives: list[str]) -> inspect.Parameter:
    """Return the flag of an option that some objectives have; what differs between them is said for each."""
    fields = {objective: objective_options(objective)[name] for objective in objectives}
    kind = get_type_hints(OBJECTIVES[objectives[0]])[name]
    choices = tuple(dict.fromkeys(c for field in fields.values() for c in field.metadata["choices"] or ()))

    def merged(values: dict[str, str], pattern: str) -> str:
        alike = len(set(values.values())) == 1
        return values[objectives[0]] if alike else "; ".join(pattern.format(*item) for item in values.items())

    text = merged({objective: described(field) for objective, field in fields.items()}, "{0}: {1}")
    default = merged({objective: str(field.default) for objective, field in fields.items()}, "{1} ({0})")
    return _flag(name, kind, choices, text, default, f"Options of the objective {' and '.join(objectives)}")


def _settings_flag(field: dataclasses.Field[Any]) -> inspect.Parameter:
    """Return the flag of a field of `Settings`."""
    kind: Any = get_type_hints(Settings)[field.name]
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    default = "" if field.default is None else str(field.default)
    return _flag(field.name, kind, field.metadata["choices"], described(field), default, "Settings")


def _flag(
    name: str, kind: Any, choices: tuple[Any, ...] | None, text: str, default: str, panel: str
) -> inspect.Parameter:
    """Return the parameter of one flag; unset means the default, which the help shows."""
    if choices and kind is str:
        kind = Literal[choices]
    dashed = name.replace("_", "-")
    flag = typer.Option(
        f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}",
        help=_sentence(text),
        show_default=default or False,
        rich_help_panel=panel,
    )
    annotation: Any = Annotated[kind | None, flag]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _sentence(text: str) -> str:
    first = text[0].upper() if text[0].isascii() else text[0]  # ψ is not Ψ
    return f"{first}{text[1:]}."
