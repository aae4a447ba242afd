"""The command `staypositive`, and `python -m staypositive`: what needs no torch is answered without it."""

import io
import os
import sys

from staypositive.completion import VARIABLE, answer


def main() -> None:
    """Complete a word for the shell, list the commands, or run one."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label that an ASCII terminal cannot show is no error
    if VARIABLE in os.environ or sys.argv[1:] == ["--help"]:
        answer()
    from staypositive.cli import main as run

    run()


if __name__ == "__main__":
    main()
