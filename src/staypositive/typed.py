"""Whether values from outside fit the annotations of the dataclass or the function that they are given to."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from staypositive.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

NAMES: dict[Any, str] = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", Callable: "a function",
    os.PathLike: "a path", Iterable: "a list",
}  # fmt: skip


def fits(value: object, kind: Any) -> bool:
    """Return whether a value is of an annotated kind; a whole number is a number, and truth is neither.

    >>> fits(3, float), fits(True, int), fits("3", int | None), fits([1.0, 2], tuple[float, ...])
    (True, False, False, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in inner)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(kinds) == len(value) and all(map(fits, value, kinds))
    if origin is Sequence:
        return isinstance(value, Sequence) and all(fits(each, inner[0]) for each in value)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if kind in (int, float):
        is_number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return is_number and not (kind is float and isinstance(value, Integral) and abs(int(value)) >= 2**1023)
    return value is None if kind in (None, types.NoneType) else isinstance(value, origin or kind)


def misfit(kind: Any, values: Mapping[str, object]) -> str:
    """Return what is wrong with the first value that does not fit its dataclass's field or function's argument.

    Fields that have no value, and values that have no field, are left to the constructor.
    """
    for name, annotation in annotations_of(kind).items():
        if name in values and not fits(values[name], annotation):
            return f"{name} must be {_said(annotation)}, got {shown(values[name])}"
    return ""


def checked(function: F) -> F:
    """Refuse arguments that do not fit their annotations with one `InputError`, before the function is called.

    >>> @checked
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> double("3")
    Traceback (most recent call last):
    staypositive.errors.InputError: number must be a whole number, got '3'
    """
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        if wrong := misfit(function, dict(zip(names, values, strict=False)) | named):
            raise InputError(wrong)
        return function(*values, **named)

    return cast(F, call)


def misfit_of(instance: Any) -> str:
    """Return what is wrong with the first value of a dataclass's instance that does not fit its field, or nothing."""
    kind: Any = type(instance)
    return misfit(kind, {name: getattr(instance, name) for name in annotations_of(kind)})


@cache
def annotations_of(kind: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields, or of a function's arguments, by name."""
    if not dataclasses.is_dataclass(kind):  # what a function returns may be known to type checkers alone
        takes = types.FunctionType(kind.__code__, kind.__globals__)
        takes.__annotations__ = {name: text for name, text in kind.__annotations__.items() if name != "return"}
        return get_type_hints(takes)
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def shown(value: object) -> str:
    """Return a value as a message shows it, however long it is.

    >>> shown(10**10_000)
    'a whole number of some 10000 digits'
    """
    if isinstance(value, int) and value.bit_length() > 4000:  # Python refuses to print one that is much longer
        return f"a whole number of some {int(value.bit_length() * math.log10(2))} digits"
    return f"{value!r:.80}"


def _said(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_said(part) for part in get_args(kind) if part is not types.NoneType)
    if get_origin(kind) is Sequence:
        return f"a sequence of {_said(get_args(kind)[0])}"
    plain = get_origin(kind) or kind
    return NAMES.get(plain, getattr(plain, "__name__", str(kind)))
