"""Shell completion and the list of commands, without waiting seconds for torch.

The outline of the command line (commands, flags, choices) is kept in the cache as JSON, under a name that changes
with any of the package's files. From it a command line with the same words, and nothing behind them, is built, which
typer completes from, or prints the help of.
"""

from __future__ import annotations

import glob
import hashlib
import inspect
import json
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.models import ArgumentInfo

from staypositive.files import cache_folder, write_atomic

PROGRAM = "staypositive"
VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"
"""What a shell sets to ask for completions; typer's protocol."""
_PACKAGE = Path(__file__).parent
_PACKAGED = _PACKAGE / "run" / "packaged"
_RUN = "run.json"
"""Both as in the room `run`, which imports torch; a test holds them equal."""


def answer() -> None:
    """Complete a word, or print the list of commands, and exit."""
    twin(kept_outline())(prog_name=PROGRAM)


def complete_data(incomplete: str) -> list[str | tuple[str, str]]:
    """Complete a graph: a dataset's name, a folder or a file."""
    return [*map(tuple, kept_outline()["names"]["datasets"]), *sorted(_paths(incomplete, "*"))]


def complete_run(incomplete: str) -> list[str | tuple[str, str]]:
    """Complete a run: one of the package, or a folder that holds one, here or one level down."""
    found = {*_paths(incomplete, "*"), *_paths(incomplete, "*/*")}
    runs = sorted(path for path in found if Path(path, _RUN).is_file())
    return [*map(tuple, kept_outline()["names"]["runs"]), *runs]


def complete_relation(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a relation of the run that the command names."""
    name = str(context.params.get("run") or next(iter(context.args), ""))  # a flag without value ends the parsing
    folder = Path(name) if Path(name).exists() else _PACKAGED / name
    try:
        labels = json.loads((folder / _RUN).read_text("utf-8"))["files"]["labels.json"]["file"]
        return [str(label) for label in json.loads((folder / labels).read_text("utf-8"))["relations"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # no run yet, or a damaged one: the command itself will say so


COMPLETERS = {function.__name__: function for function in (complete_data, complete_run, complete_relation)}


def _paths(start: str, rest: str) -> list[str]:
    return glob.glob(glob.escape(start) + rest)  # noqa: PTH207  # a Path would drop ./ and a slash at the end


def kept_outline() -> dict[str, Any]:
    """Return the outline of this state of the package: from the cache, or made and put there in place of others."""
    path = cache_folder() / f"completion-{_state()}.json"
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    from staypositive.cli import app
    from staypositive.graph import CATALOGUE
    from staypositive.run import packaged_runs

    datasets = [[dataset.name, dataset.about] for dataset in CATALOGUE.values()]
    runs = [[name, "a run inside the package"] for name in packaged_runs()]
    made = outline(app) | {"names": {"datasets": datasets, "runs": runs}}
    with suppress(OSError):  # without a cache that can be written, it is made each time
        write_atomic(path, json.dumps(made))
        for other in set(path.parent.glob("completion-*.json")) - {path}:
            other.unlink(missing_ok=True)
    return made


def _state() -> str:
    stats = [(path, path.stat()) for path in sorted(_PACKAGE.rglob("*.py"))]
    lines = [f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def outline(app: typer.Typer) -> dict[str, Any]:
    """Return a command line as data: its commands with their parameters, and its groups."""
    callback = app.registered_callback.callback if app.registered_callback else None
    return {
        "help": app.info.help if isinstance(app.info.help, str) else inspect.getdoc(callback),
        "parameters": _parameters(callback),
        "commands": [
            {"name": info.name, "help": inspect.getdoc(info.callback), "parameters": _parameters(info.callback)}
            for info in app.registered_commands
        ],
        "groups": [
            {"name": group.name, **outline(group.typer_instance)}
            for group in app.registered_groups
            if group.typer_instance is not None
        ],
    }


def _parameters(function: Callable[..., Any] | None) -> list[dict[str, Any]]:
    return [_parameter(one) for one in flags_of(function)] if function else []


def flags_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or a class, that are flags or arguments of a command."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [parameter for parameter in parameters if get_origin(parameter.annotation) is Annotated]


def without_none(kind: Any) -> Any:
    """Return an annotation without its `| None`."""
    is_union = get_origin(kind) in (Union, types.UnionType)
    return next(part for part in get_args(kind) if part is not type(None)) if is_union else kind


def _parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    kind, info = get_args(parameter.annotation)  # in Annotated, the first flag stands where a default would
    kind = without_none(kind)
    return {
        "name": parameter.name,
        "argument": isinstance(info, ArgumentInfo),
        "flags": [*([info.default] if isinstance(info.default, str) else []), *(info.param_decls or ())],
        "help": info.help,
        "switch": kind is bool,
        "many": get_origin(kind) is list,
        "choices": [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else [],
        "completer": info.autocompletion.__name__ if info.autocompletion else None,
    }


def twin(shape: dict[str, Any]) -> typer.Typer:
    """Build a command line of an outline: the same words, and nothing behind them."""
    app = typer.Typer()
    app.callback(help=shape["help"])(_blank(shape["parameters"]))
    for command in shape["commands"]:
        app.command(command["name"], help=command["help"])(_blank(command["parameters"]))
    for group in shape["groups"]:
        app.add_typer(twin(group), name=group["name"])
    return app


def _blank(parameters: list[dict[str, Any]]) -> Callable[..., None]:
    def blank(**_: Any) -> None: ...

    kinds = {one["name"]: _annotation(one) for one in parameters}
    by_name = inspect.Parameter.KEYWORD_ONLY
    rebuilt = [inspect.Parameter(name, by_name, default=None, annotation=kind) for name, kind in kinds.items()]
    blank.__signature__ = inspect.Signature(rebuilt)  # type: ignore[attr-defined]
    blank.__annotations__ = kinds
    return blank


def _annotation(one: dict[str, Any]) -> Any:
    kind: Any = bool if one["switch"] else Literal[tuple(one["choices"])] if one["choices"] else str
    kind = list[kind] if one["many"] else kind
    make: Callable[..., Any] = typer.Argument if one["argument"] else typer.Option
    info = make(*one["flags"], help=one["help"], autocompletion=COMPLETERS.get(one["completer"]))
    return Annotated[kind | None, info]
