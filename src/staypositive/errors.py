"""The small tree of errors.

Every error that staypositive raises on purpose is a `StayPositiveError`; its message says what was expected,
what came, and what to do next.

    StayPositiveError
    ├── InputError            what the caller gave cannot be used
    │   ├── DataError         ... a file of triples; names the file and the line
    │   ├── SettingError      ... an option or its value
    │   └── UnknownLabelError ... an entity or relation that the graph does not have
    ├── DownloadError         a named dataset could not be fetched or failed its checksum
    ├── EndedEarlyError       training ended before its last epoch; what was trained so far is kept
    │   ├── DivergedError     ... the loss was not finite
    │   └── StoppedError      ... it was asked to stop
    ├── ShortOfMemoryError    memory ran out; says what to make smaller
    └── RunError              a folder of a run or checkpoint is missing, damaged, in use, full or of a newer format
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any


class StayPositiveError(Exception):
    """The root of the tree: catch this to catch everything staypositive raises on purpose."""


class InputError(StayPositiveError):
    """What the caller gave cannot be used."""


class DataError(InputError):
    """A file of triples is not what it should be; the message begins with the file and the line."""

    def __init__(self, message: str, path: str | PathLike[str] | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class SettingError(InputError):
    """An option has a value that cannot work, or two options contradict each other."""


class UnknownLabelError(InputError):
    """A label that the graph does not have, with the nearest labels that it does have."""

    def __init__(self, kind: str, label: str, suggestions: Sequence[str] = ()) -> None:
        self.kind, self.label, self.suggestions = kind, label, tuple(suggestions)
        hint = f" Did you mean {' or '.join(repr(s) for s in suggestions)}?" if suggestions else ""
        super().__init__(f"no {kind} is called {label!r} in this graph.{hint}")


class DownloadError(StayPositiveError):
    """A dataset's file could not be fetched, or what came does not have the pinned SHA-256."""


class EndedEarlyError(StayPositiveError):
    """Training ended before its last epoch. `run` holds what was trained up to the last epoch that ended well."""

    def __init__(self, message: str, run: Any = None) -> None:
        self.run = run
        super().__init__(message)


class DivergedError(EndedEarlyError):
    """The loss became NaN or infinite."""


class StoppedError(EndedEarlyError):
    """Training was asked to stop."""


class ShortOfMemoryError(StayPositiveError, MemoryError):
    """The memory of the machine or of its GPU does not suffice; the message says what to make smaller."""


class RunError(StayPositiveError):
    """The folder of a run or a checkpoint cannot be read or written: the message says which file, and why."""


_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory", "cannot allocate memory")


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short: Python's and numpy's, or torch's of the CPU or of CUDA."""
    said = str(error).lower() if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or any(saying in said for saying in _OUT_OF_MEMORY)


@contextmanager
def advising(doing: str, advice: str) -> Iterator[None]:
    """Turn an error that says that memory is short into one that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ShortOfMemoryError) or not ran_out_of_memory(error):
            raise
        raise ShortOfMemoryError(f"memory ran out while {doing}; {advice}") from error


def import_optional(module: str, what: str, extra: str) -> Any:
    """Return a library that only an extra brings; an error says that `what` needs it, and how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        library = module.partition(".")[0]
        raise InputError(f"{what} needs {library}: pip install 'staypositive[{extra}]'") from None
