"""What the commands of experiments share with those of this package."""

from __future__ import annotations

import shlex
import sys

from staypositive.cli.console import Console as Speaker
from staypositive.cli.console import JsonFlag, QuietFlag, VerboseFlag

__all__ = ["JsonFlag", "QuietFlag", "Speaker", "VerboseFlag", "own_command"]


def own_command(without: tuple[str, ...], program: str = "staypositive") -> str:
    """Return the command that runs, less some options with their values: where a result is put is no part of it."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in without:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in without)):
            kept.append(word)
    return f"{program} {shlex.join(kept)}"
