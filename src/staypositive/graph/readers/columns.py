"""Which column of a table is what: found by name, in any order, or as a caller says; and how that is told."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from staypositive.errors import InputError, SettingError
from staypositive.graph.labelled import ROLES, LabelledTriples

log = logging.getLogger(__name__)

FAMILIES = (
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("subj", "pred", "obj"),
    ("source", "property", "target"),
    ("src", "rel", "dst"),
    ("from", "rel", "to"),
)
"""Names of head, relation and tail that go together, most telling first."""
SHORT_FAMILIES = (("h", "r", "t"), ("s", "p", "o"))
"""These will do where columns have names for certain; (s, p, o) may well be a triple of somebody's toy graph."""
ALL_FAMILIES = (*FAMILIES, *SHORT_FAMILIES)
SIGNS = {"1": 1, "-1": -1}
NAMES_OF = {
    **{role: tuple(dict.fromkeys(family[part] for family in ALL_FAMILIES)) for part, role in enumerate(ROLES)},
    "label": ("label", "sign", "truth"),
    "confidence": ("confidence", "weight"),
}
"""What the column of each role may be called, most telling first."""
ColumnNames = Mapping[str, str | int | None]
"""The column of each role: its name or its number, counted from 1; None for no label or no confidence."""

FEW = 5  # rows that must follow a first one before it can be told from a header
SHOWN = 60  # characters of a name or label in a sentence
_WORD = re.compile(r"[^\W\d][^\d/:#<>@\"]{0,39}|[^\W\d_]{3,30}_?\d")
"""A name of a column: no id, no number and no address, though `entity1` is one."""


def folded(name: object) -> str:
    return str(name).strip().casefold()


def find_triple(names: Iterable[object], families: Sequence[tuple[str, str, str]]) -> tuple[str, str, str] | None:
    """Return which names stand for head, relation and tail, as they are compared; None where one is lacking.

    Head and tail of one family are preferred to any two: in `source, subject, predicate, object` the head is the
    subject, and the source something else.
    """
    there = set(map(folded, names))
    for head, relation, tail in families:
        own = next((name for name in (relation, *(family[1] for family in families)) if name in there), None)
        if own is not None and {head, tail} <= there:
            return head, own, tail
    mixed = [[family[part] for family in families if family[part] in there] for part in range(3)]
    return (mixed[0][0], mixed[1][0], mixed[2][0]) if all(mixed) else None


def looks_like_header(row: Sequence[str]) -> bool:
    """Return whether a first row names columns rather than stating a triple.

    A row that could be a triple must have the full names of head, relation and tail, in any order; one of more cells
    may have the short ones.
    """
    could_be_triple = len(row) == 3 or (len(row) == 4 and row[3] in SIGNS)
    return find_triple(row, FAMILIES if could_be_triple else ALL_FAMILIES) is not None


@dataclass(frozen=True)
class TableOptions:
    """How tables are read: the header, the columns, and which cells hold no value; `of` checks what a caller gave."""

    header: bool | None = None
    columns: ColumnNames = field(default_factory=dict)
    skip_blank: bool = False
    na: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, header: bool | None = None, columns: ColumnNames | None = None, skip_blank: bool = False,
        na: str | Iterable[str] = (),
    ) -> TableOptions:  # fmt: skip
        """Return checked options; a role may go by any name that a column of it may have."""
        values = [na] if isinstance(na, str) else list(na)
        if not all(isinstance(value, str) for value in values):
            raise SettingError(f"na lists cells that hold no value, as text; got {na!r:.80}")
        options = cls(header, _by_role(columns or {}), bool(skip_blank), frozenset(values))
        if header is False and options.has_names:
            raise SettingError("columns are named, so the first line must name them; leave out --no-header")
        return options

    @property
    def has_names(self) -> bool:
        """Whether a column goes by its name: text then begins with a header."""
        return any(isinstance(where, str) for where in self.columns.values())

    def is_header(self, row: Sequence[str]) -> bool:
        return self.has_names or (looks_like_header(row) if self.header is None else self.header)

    def refuse(self, what: str) -> None:
        if self.columns or self.skip_blank or self.na:
            raise SettingError(f"--columns, --skip-blank and --na are for text, Parquet and tables; {what} has none")

    def kept(self, columns: Sequence[Sequence[str | None]]) -> list[bool] | None:
        """Return which rows have a value in each column, or None where all have; None is a missing value."""
        if not self.skip_blank and not self.na:
            return None
        missing = [{cell for cell in set(column) if self._is_missing(cell)} for column in columns]
        if not any(missing):
            return None
        return [
            not any(cell in own for cell, own in zip(row, missing, strict=True)) for row in zip(*columns, strict=True)
        ]

    def note(self, left_out: int) -> list[str]:
        what = ["is empty"] if self.skip_blank else []
        what += [f"is {' or '.join(sorted(map(repr, self.na)))}"] if self.na else []
        return [f"{left_out:,} rows left out: the head, relation or tail {' or '.join(what)}"] if left_out else []

    def _is_missing(self, cell: str | None) -> bool:
        return cell in self.na or (self.skip_blank and (not cell or cell.isspace()))


def _by_role(columns: ColumnNames) -> dict[str, str | int | None]:
    if not isinstance(columns, Mapping):
        raise SettingError(f"columns are given by role, as in {{'head': 'Name', 'relation': 2}}; got {columns!r:.80}")
    found: dict[str, str | int | None] = {}
    for name, where in columns.items():
        role = next((role for role, names in NAMES_OF.items() if folded(name) in names), None)
        if role is None:
            raise SettingError(f"no role is called {name!r:.80}; columns are for {', '.join(NAMES_OF)}")
        if role in found:
            raise SettingError(f"the column of the {role} is given twice")
        where = None if where == "" else where
        if where is None and role in ROLES:
            raise SettingError(f"the column of the {role} has no name; give its name, or its number from 1")
        if isinstance(where, bool) or not isinstance(where, str | int | None):
            raise SettingError(f"a column is given by its name or its number from 1, got {where!r:.80} as {role}")
        found[role] = where
    return found


class Places(NamedTuple):
    """Where the columns of each role are, counted from 0."""

    triple: tuple[int, int, int]
    label: int | None = None
    confidence: int | None = None

    @property
    def by_role(self) -> dict[str, int]:
        pairs = zip(NAMES_OF, (*self.triple, self.label, self.confidence), strict=True)
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
    usual = {role: [n for n in NAMES_OF[role] if n in map(folded, free)] for role in ROLES if role not in found}
    if any(role in wanted for role in ROLES):
        if lacking := [role for role, own in usual.items() if not own]:
            said = f"no column is named for the {' or the '.join(lacking)}, nor called so; there are: {listed(names)}"
            raise InputError(said)
        found |= {role: _only(free, own[0], role) for role, own in usual.items()}
    elif named := find_triple(free, ALL_FAMILIES):
        found |= {role: _only(free, name, role) for role, name in zip(ROLES, named, strict=True)}
    else:
        _require_in_order(names)
        found |= dict(zip(ROLES, range(3), strict=True))
    for role in ("label", "confidence"):
        places = [p for p, name in enumerate(free) if folded(name) in NAMES_OF[role] and p not in found.values()]
        if role not in wanted and places:
            found[role] = places[0]
    for role, place in found.items():
        twin = next((other for other, own in found.items() if own == place and other != role), None)
        if twin is not None:
            raise InputError(f"column {place + 1} ({names[place]!s:.60}) cannot be both {role} and {twin}")
    return Places((found["head"], found["relation"], found["tail"]), found.get("label"), found.get("confidence"))


def _place(names: Sequence[object], where: str | int, role: str) -> int:
    if isinstance(where, int):
        if not 1 <= where <= len(names):
            raise InputError(f"column {where} is wanted as {role}; columns are counted from 1 to {len(names)}")
        return where - 1
    exact = [place for place, name in enumerate(names) if str(name) == where]
    if not exact and folded(where) not in map(folded, names):
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
    usual = [{family[part] for family in FAMILIES} for part in range(3)]
    for place, name in enumerate(names[:3]):
        if folded(name) not in usual[place] and any(folded(name) in own for own in usual):
            lacking = [role for role, own in zip(ROLES, usual, strict=True) if not own & set(map(folded, names))]
            raise InputError(
                f"column {place + 1} is called {name!r:.80}, but none is called {' or '.join(lacking)}; there are: "
                f"{listed(names)}. Say which is which: --columns head=NAME,relation=NAME,tail=NAME"
            )


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
