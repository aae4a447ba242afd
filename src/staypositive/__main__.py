"""The command `staypositive`, and `python -m staypositive`: what needs no torch is answered without it."""

import sys

from staypositive.completion import answer, wants_outline
from staypositive.text import spell_out_unprintable


def main() -> None:
    """Complete a word for the shell, list the commands, or run one."""
    spell_out_unprintable(sys.stdout, sys.stderr)  # a label or a dash that an ASCII terminal cannot show is no error
    if wants_outline(sys.argv[1:]):
        answer()
    from staypositive.cli import main as run

    run()


if __name__ == "__main__":
    main()
