"""Flags that come from the settings, so that a new setting or objective has its flag at once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import typer

from staypositive.objectives import OBJECTIVES
from staypositive.options import described
from staypositive.run.settings import Declaration, declarations

if TYPE_CHECKING:
    ObjectiveName: TypeAlias = str
else:  # the names that exist, so that --help lists them
    ObjectiveName = Literal[tuple(OBJECTIVES)]


def with_settings_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command one flag for each keyword of `fit`: settings, and options of models and of objectives."""
    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def generated(**arguments: Any) -> None:
        command(**arguments)

    parameters = [*kept, *(_flag(name, owners) for name, owners in declarations().items())]
    generated.__doc__ = command.__doc__
    generated.__name__ = command.__name__
    generated.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    generated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return generated


def _flag(name: str, owners: list[Declaration]) -> inspect.Parameter:
    """Return the parameter of one flag; unset means the default. What differs between owners is said for each."""
    fields = {own.owner: own.field for own in owners}
    kind: Any = owners[0].kind
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    choices = tuple(dict.fromkeys(c for field in fields.values() for c in field.metadata["choices"] or ()))
    if choices and kind is str:
        kind = Literal[choices]

    def merged(values: dict[str, str], pattern: str) -> str:
        alike = len(set(values.values())) == 1
        return next(iter(values.values())) if alike else "; ".join(pattern.format(*item) for item in values.items())

    help = merged({owner: described(field) for owner, field in fields.items()}, "{0}: {1}")
    default = merged({owner: "" if f.default is None else str(f.default) for owner, f in fields.items()}, "{1} ({0})")
    dashed = name.replace("_", "-")
    flag = typer.Option(
        f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}",
        help=_sentence(help),
        show_default=default or False,
        rich_help_panel=f"Options of the {owners[0].of} {' and '.join(fields)}" if owners[0].of else "Settings",
    )
    annotation: Any = Annotated[kind | None, flag]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _sentence(text: str) -> str:
    first = text[0].upper() if text[0].isascii() else text[0]  # ψ is not Ψ
    return f"{first}{text[1:]}."
