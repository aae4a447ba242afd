"""Commands from functions whose parameters may be whole groups of flags, or all settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Annotated, Any, Literal, get_args

from typer import Option

from staypositive.completion import flags_of, without_none
from staypositive.objectives import OBJECTIVES
from staypositive.options import described
from staypositive.run import Declaration, declarations


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command flags in place of parameters that are groups of them, and one per setting for `**settings`.

    A group is a class, such as `console: Console` or `reading: Reading`, whose arguments are flags. A tuple of names
    beside an option, as in `Annotated[str, Option(), SPLITS]`, lists its choices.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parameters += settings_flags()
        elif inspect.isclass(parameter.annotation):
            flags = [_declared(flag) for flag in flags_of(parameter.annotation)]
            groups[parameter.name] = parameter.annotation, [flag.name for flag in flags]
            parameters += flags
        else:
            parameters.append(_declared(parameter))

    @wraps(function)
    def run(**given: Any) -> None:
        for name, (kind, names) in groups.items():
            given[name] = kind(**{flag: given.pop(flag) for flag in names if flag in given})
        function(**given)

    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = signature.replace(parameters=by_name)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in by_name}
    return run


def _declared(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with its choices as a `Literal`, and as a switch without `--no-` where it is off."""
    kind, flag, *choices = get_args(parameter.annotation)
    kind = Literal[choices[0]] | None if choices else kind
    if parameter.default is False and flag.default is ...:
        flag = copy(flag)
        flag.param_decls = (f"--{parameter.name.replace('_', '-')}",)
    return parameter.replace(annotation=Annotated[kind, flag])


def settings_flags() -> list[inspect.Parameter]:
    """Return a flag for each keyword of `fit`: settings, and options of models and of objectives."""
    default = "stay-positive for a given model, else the preset's"
    flag = Option(help="The loss to train by.", show_default=default, rich_help_panel="Settings")
    objective: Any = Annotated[Literal[tuple(OBJECTIVES)] | None, flag]
    flags = {name: _flag(name, owners) for name, owners in declarations().items()} | {"objective": objective}
    by_name = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, by_name, default=None, annotation=kind) for name, kind in flags.items()]


def _flag(name: str, owners: list[Declaration]) -> Any:
    """Return the annotation of an option's flag; where those who declare it differ, the help says how."""
    fields = {own.owner: own.field for own in owners}
    kind = without_none(owners[0].kind)
    choices = tuple(dict.fromkeys(c for field in fields.values() for c in field.metadata["choices"] or ()))
    if choices and kind is str:
        kind = Literal[choices]
    text = _merged({owner: described(field) for owner, field in fields.items()}, "{0}: {1}")
    default = {owner: "" if field.default is None else str(field.default) for owner, field in fields.items()}
    dashed = name.replace("_", "-")
    flag = Option(
        f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}",
        help=f"{text[0].upper() if text[0].isascii() else text[0]}{text[1:]}.",  # ψ is not Ψ
        show_default=_merged(default, "{1} ({0})") or False,
        rich_help_panel=f"Options of the {owners[0].of} {' and '.join(fields)}" if owners[0].of else "Settings",
    )
    return Annotated[kind | None, flag]


def _merged(values: dict[str, str], pattern: str) -> str:
    alike = len(set(values.values())) == 1
    return next(iter(values.values())) if alike else "; ".join(pattern.format(*item) for item in values.items())
