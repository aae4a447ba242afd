"""Options: fields of a dataclass that state their help, their range, and where they apply.

`Settings` and the objectives declare theirs with `option`; keywords, flags, help, docs and refusals follow from that.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from staypositive.errors import SettingError
from staypositive.typed import annotations_of, fits, misfit_of, shown

T = TypeVar("T")
LARGEST_INT, LARGEST_FLOAT = 2**31 - 1, (2 - 2**-23) * 2.0**127
"""The largest numbers of an option that states no other: what 32 bits hold."""


class Applies(NamedTuple):
    """Where an option has an effect."""

    to: str | Callable[[], str]
    """As a sentence says it: `the tanh bound`. A function is called when it is said, as that of a help is."""
    by: str
    """The setting that decides: `bound`."""
    holds: Callable[[Any], bool]
    """Whether it has an effect, given the object that the option belongs to."""


_INSIDE = {"least": operator.ge, "above": operator.gt, "most": operator.le, "below": operator.lt}


def option(
    default: T,
    help: str | Callable[[], str],
    choices: Collection[Any] | None = None,
    *,
    made: tuple[Any, ...] = (),
    applies: Applies | None = None,
    **limits: float,
) -> T:
    """Declare a field: its default, the help of its flag, the values it takes if few, its range, where it applies.

    `choices` may be a dictionary that grows; `made` are values that a saved run may have and nobody can choose;
    `limits` are `least`, `above`, `most`, `below`.
    """
    metadata = {"help": help, "choices": choices, "made": made, "applies": applies, "limits": limits}
    field: T = dataclasses.field(default=default, metadata=metadata)
    return field


def text(said: str | Callable[[], str]) -> str:
    """Return a help, or where an option applies, as it is now."""
    return said() if callable(said) else said


def described(field: dataclasses.Field[Any]) -> str:
    """Return the help of an option with its range and where it applies, all separated by semicolons."""
    limits, applies = field.metadata["limits"], field.metadata["applies"]
    notes = [" and ".join(_end(*limit) for limit in limits.items())] if limits else []
    notes += [f"applies to {text(applies.to)}"] if applies else []
    return "; ".join([text(field.metadata["help"]), *notes])


def check_options(instance: Any, owner: str = "") -> None:
    """Refuse the first value of a dataclass that is of another kind, not among its choices, or out of its range.

    Numbers of other libraries become Python's, so that every option can be written as JSON.
    """
    kind: Any = type(instance)
    if wrong := misfit_of(instance):
        raise SettingError(wrong + owner)
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, Real) and not isinstance(value, bool | int | float):
            value = int(value) if isinstance(value, Integral) else float(value)
            object.__setattr__(instance, field.name, value)
        if wrong := _wrong(field, annotations_of(kind)[field.name], value):
            raise SettingError(f"{field.name} {wrong}, got {shown(value)}{owner}")


def _wrong(field: dataclasses.Field[Any], kind: Any, value: Any) -> str:
    choices, limits = field.metadata.get("choices"), field.metadata.get("limits", {})
    if choices and value is not None and value not in (*choices, *field.metadata.get("made", ())):
        return f"is one of {', '.join(map(str, choices))}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    largest = LARGEST_FLOAT if fits(0.5, kind) else LARGEST_INT
    for name, end in {**limits, "least": limits.get("least", -largest), "most": limits.get("most", largest)}.items():
        if not _INSIDE[name](value, end):
            return f"must be {_end(name, end)}"
    return ""


def _end(name: str, end: float) -> str:
    words = {"least": "at least", "most": "at most"}.get(name, name)
    return f"{words} {end if isinstance(end, int) else format(end, 'g')}"
