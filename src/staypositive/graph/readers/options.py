"""What a caller says about tables of triples: the header, the columns, and which cells hold no value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from staypositive.errors import SettingError
from staypositive.graph.labelled import ROLES
from staypositive.graph.readers.names import ALL_FAMILIES, CONFIDENCE_NAMES, LABEL_NAMES, folded

ALL_ROLES = (*ROLES, "label", "confidence")
NAMES_OF = {
    **{role: tuple(dict.fromkeys(family[part] for family in ALL_FAMILIES)) for part, role in enumerate(ROLES)},
    "label": LABEL_NAMES,
    "confidence": CONFIDENCE_NAMES,
}
"""What the column of each role may be called, most telling first."""
ColumnNames = Mapping[str, str | int | None]
"""The column of each role: its name or its number, counted from 1; None for no label or no confidence."""


@dataclass(frozen=True)
class TableOptions:
    """How tables are read; `of` checks what a caller gave."""

    header: bool | None = None
    columns: ColumnNames = field(default_factory=dict)
    skip_blank: bool = False
    na: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        header: bool | None = None,
        columns: ColumnNames | None = None,
        skip_blank: bool = False,
        na: str | Iterable[str] = (),
    ) -> TableOptions:
        """Return checked options; roles may go by any name that a column of theirs may have."""
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

    def refuse(self, what: str) -> None:
        """Refuse options for a source that has no columns."""
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
        """Return a sentence about rows that were left out, if there are any."""
        what = ["is empty"] if self.skip_blank else []
        what += [f"is {' or '.join(sorted(map(repr, self.na)))}"] if self.na else []
        return [f"{left_out:,} rows left out: the head, relation or tail {' or '.join(what)}"] if left_out else []

    def _is_missing(self, cell: str | None) -> bool:
        return cell in self.na or (self.skip_blank and (not cell or cell.isspace()))


def selected(kept: list[bool], *columns: Sequence[Any] | None) -> list[list[Any] | None]:
    """Return columns without the rows that are not kept."""
    return [None if column is None else list(compress(column, kept)) for column in columns]


def _by_role(columns: ColumnNames) -> dict[str, str | int | None]:
    if not isinstance(columns, Mapping):
        raise SettingError(f"columns are given by role, as in {{'head': 'Name', 'relation': 2}}; got {columns!r:.80}")
    found: dict[str, str | int | None] = {}
    for name, where in columns.items():
        role = next((role for role, names in NAMES_OF.items() if folded(name) in names), None)
        if role is None:
            raise SettingError(f"no role is called {name!r:.80}; columns are for {', '.join(ALL_ROLES)}")
        if role in found:
            raise SettingError(f"the column of the {role} is given twice")
        if where is None or where == "":
            if role in ROLES:
                raise SettingError(f"the column of the {role} has no name; give its name, or its number from 1")
            where = None
        elif isinstance(where, bool) or not isinstance(where, str | int):
            raise SettingError(f"a column is given by its name or its number from 1, got {where!r:.80} as {role}")
        found[role] = where
    return found
