"""Fuzz what reads what others may have written: files, runs, checkpoints, shards, settings, commands and requests.

    python scripts/fuzz.py readers --cases 100000 --seed 0

Each case is a function of target, seed and number. Nothing may go wrong but by an error of ours that names the file;
a case that does go wrong is printed as the command that has it again. `--start` goes on where an earlier call ended.
With atheris installed, `--atheris` lets coverage guide the cases instead, until interrupted or for `--cases`.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


class FromBytes(random.Random):
    """A source of chance whose choices are some bytes, so that a coverage-guided engine makes them; zeros behind."""

    def __new__(cls, data: bytes) -> FromBytes:
        """Make the generator, whose own seed does not matter."""
        return super().__new__(cls, 0)

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self.data, self.place = data, 0

    def getrandbits(self, k: int) -> int:
        """Return the next bits of the data."""
        size = (k + 7) // 8
        piece = self.data[self.place : self.place + size].ljust(size, b"\0")
        self.place += size
        return int.from_bytes(piece, "little") >> (8 * size - k)

    def random(self) -> float:
        """Return a number from 0 to 1 made of the next bits."""
        return self.getrandbits(24) / 2**24


def main() -> None:
    """Run cases of one target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "target", choices=("readers", "headers", "columns", "runs", "checkpoints", "shards", "configs", "service")
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--atheris", action="store_true", help="let coverage choose the cases")
    chosen = parser.parse_args()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as place:
        if chosen.atheris:
            _guided(chosen.target, chosen.cases, Path(place))
            return
        from fuzzing.cases import CrashError, run_cases
        from fuzzing.targets import make_target

        logging.disable(logging.CRITICAL)
        target, began = make_target(chosen.target, Path(place)), time.perf_counter()

        def progress(done: int, outcomes: Counter[str]) -> None:
            rate = done / (time.perf_counter() - began)
            line = f"{chosen.target}: {chosen.start + done:,} cases, {rate:,.0f} a second, {len(outcomes)} outcomes"
            if sys.stderr.isatty() or done % 20_000 == 0:
                print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

        try:
            outcomes = run_cases(chosen.target, target, chosen.cases, chosen.seed, chosen.start, progress)
        except CrashError as failure:
            sys.exit(f"\n{failure}")
        finally:
            target.close()
        print(file=sys.stderr)
        for outcome, count in outcomes.most_common():
            print(f"{count:>9,}  {outcome}")
        print(f"{chosen.cases:>9,}  cases without a crash in {time.perf_counter() - began:.0f} s")


def _guided(name: str, cases: int, folder: Path) -> None:
    """Hand the cases over to atheris, with our own modules instrumented."""
    import atheris  # type: ignore[import-not-found]  # no dependency of the project: for who has it

    with atheris.instrument_imports(include=["staypositive"]):
        from fuzzing.targets import make_target

        target = make_target(name, folder)
    logging.disable(logging.CRITICAL)
    atheris.Setup(
        [sys.argv[0], f"-runs={cases}", "-max_len=4096"], lambda data: target.case(FromBytes(data)) and None
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
