"""Which column of a table is what: found by name, in any order, or as a caller says; and how that is told."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError
from staypositive.graph.labelled import ROLES, LabelledTriples
from staypositive.graph.readers.names import ALL_FAMILIES, FAMILIES, find_triple, folded
from staypositive.graph.readers.options import ALL_ROLES, NAMES_OF, ColumnNames

log = logging.getLogger(__name__)

FEW = 5
"""Rows that must follow a first one before it can be told from a header."""
SHOWN = 60
"""Characters of a name or label in a sentence."""
_WORD = re.compile(r"[^\W\d][^\d/:#<>@\"]{0,39}|[^\W\d_]{3,30}_?\d")
"""A name of a column: no id, no number and no address, though `entity1` is one."""


class Places(NamedTuple):
    """Where the columns of each role are, counted from 0."""

    triple: tuple[int, int, int]
    label: int | None = None
    confidence: int | None = None

    @property
    def by_role(self) -> dict[str, int]:
        """The places of the roles that there are."""
        pairs = zip(ALL_ROLES, (*self.triple, self.label, self.confidence), strict=True)
        return {role: place for role, place in pairs if place is not None}


def find_columns(names: Sequence[object], wanted: ColumnNames | None = None) -> Places:
    """Return where each role is among columns that have names for certain.

    What is not wanted by name or number is found by its usual names, else head, relation and tail are the first
    three columns.
    """
    if len(names) < 3:
        raise InputError(f"a table of triples has three columns or more, this one has {len(names)}")
    wanted = wanted or {}
    found = {role: _place(names, where, role) for role, where in wanted.items() if where is not None}
    free = [None if place in found.values() else name for place, name in enumerate(names)]
    if any(role in wanted for role in ROLES):
        usual = {role: next((n for n in NAMES_OF[role] if n in map(folded, free)), None) for role in ROLES}
        lacking = [role for role in ROLES if role not in found and usual[role] is None]
        if lacking:
            said = f"no column is named for the {' or the '.join(lacking)}, nor called so; there are: {listed(names)}"
            raise InputError(said)
        found |= {role: _only(free, str(usual[role]), role) for role in ROLES if role not in found}
    elif named := find_triple(free, ALL_FAMILIES):
        found |= {role: _only(free, name, role) for role, name in zip(ROLES, named, strict=True)}
    else:
        _require_in_order(names)
        found |= dict(zip(ROLES, range(3), strict=True))
    _add_extras(free, wanted, found)
    _require_distinct(found, names)
    return Places((found["head"], found["relation"], found["tail"]), found.get("label"), found.get("confidence"))


def _add_extras(free: Sequence[object], wanted: ColumnNames, found: dict[str, int]) -> None:
    """Find the columns of labels and confidences by their usual names."""
    for role in ("label", "confidence"):
        places = [place for place, name in enumerate(free) if folded(name) in NAMES_OF[role]]
        places = [place for place in places if place not in found.values()]
        if role not in wanted and places:
            found[role] = places[0]


def _place(names: Sequence[object], where: str | int, role: str) -> int:
    if isinstance(where, int):
        if not 1 <= where <= len(names):
            raise InputError(f"column {where} is wanted as {role}; columns are counted from 1 to {len(names)}")
        return where - 1
    exact = [place for place, name in enumerate(names) if str(name) == where]
    if not exact and not any(folded(name) == folded(where) for name in names):
        raise InputError(f"no column is called {where!r:.80}, wanted as {role}; there are: {listed(names)}")
    return exact[0] if len(exact) == 1 else _only(names, where, role)


def _only(names: Sequence[object], where: str, role: str) -> int:
    """Return the place of the one column of a name, however it is spelt."""
    alike = [place for place, name in enumerate(names) if name is not None and folded(name) == folded(where)]
    if len(alike) > 1:
        numbers = " and ".join(str(place + 1) for place in alike[:2])
        raise InputError(f"columns {numbers} are both called {where!r:.80}; say --columns {role}=NUMBER")
    return alike[0]


def _require_in_order(names: Sequence[object]) -> None:
    """Refuse to take the first three columns where one of them has the name of another role."""
    for place, name in enumerate(names[:3]):
        own = next((part for part in range(3) if any(folded(name) == family[part] for family in FAMILIES)), place)
        if own != place:
            lacking = [role for part, role in enumerate(ROLES) if not _has(names, part)]
            raise InputError(
                f"column {place + 1} is called {name!r:.80}, but none is called {' or '.join(lacking)}; there are: "
                f"{listed(names)}. Say which is which: --columns head=NAME,relation=NAME,tail=NAME"
            )


def _has(names: Sequence[object], part: int) -> bool:
    return any(folded(name) == family[part] for name in names for family in FAMILIES)


def _require_distinct(found: dict[str, int], names: Sequence[object]) -> None:
    for role, place in found.items():
        twin = next((other for other, own in found.items() if own == place and other != role), None)
        if twin is not None:
            raise InputError(f"column {place + 1} ({names[place]!s:.60}) cannot be both {role} and {twin}")


def describe(names: Sequence[object], places: Places, first: Sequence[str]) -> str:
    """Return which column was taken for what, what was not read, and the first triple as a sentence.

    >>> describe(["Predicate", "Object", "Subject"], Places((2, 0, 1)), ["Ada", "knows", "Grace"])
    'head = Subject (column 3), relation = Predicate (1), tail = Object (2); first triple: Ada knows Grace'
    """
    taken = places.by_role
    parts = []
    for role, place in taken.items():
        name, word = str(names[place]).strip(), "column " if role == "head" else ""
        parts.append(f"{role} = {name:.{SHOWN}} ({word}{place + 1})" if name else f"{role} = column {place + 1}")
    unread = [name or place + 1 for place, name in enumerate(names) if place not in taken.values()]
    rest = [f"not read: {listed(unread)}"] if unread else []
    return "; ".join([", ".join(parts), *rest, f"first triple: {' '.join(f'{cell:.{SHOWN}}' for cell in first)}"])


def listed(names: Sequence[object], most: int = 12) -> str:
    """Return names in a row, not too many."""
    shown = ", ".join(f"{name!s:.{SHOWN}}" for name in names[:most] if name is not None)
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def header_note(triples: NDArray[Any], first: Sequence[str]) -> list[str]:
    """Return a sentence where the first of some triples may be a header: names that nothing says again.

    `triples` are ids or hashes of shape (n, 3), `first` the cells of the first. A header's three words come once,
    while relations come again and again.
    """
    rest = triples[1:]
    if len(rest) < FEW or len(set(first)) < 3 or not all(_WORD.fullmatch(cell.strip()) for cell in first):
        return []
    again = (rest[:, 1] == triples[0, 1]).any() or np.isin(rest[:, [0, 2]], triples[0, [0, 2]]).any()
    if again or len(np.unique(rest[:, 1])) > len(rest) // 2:
        return []
    return [
        f"the first line, `{' '.join(first)}`, was read as a fact; if it names the columns, say --header, or "
        "--columns head=NAME,relation=NAME,tail=NAME"
    ]


def told(found: LabelledTriples) -> LabelledTriples:
    """Log how a source was read, and as warnings what was left out or looks wrong."""
    if found.layout:
        log.info("%s: %s", found.source.name, found.layout)
    for note in found.notes:
        log.warning("%s: %s", found.source.name, note)
    return found
