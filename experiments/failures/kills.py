"""Kill trainings, resume each, and compare its weights with those of a training that was never stopped.

Each training is a process of its own that runs `staypositive train geo ... --checkpoint-every 1 --resume`. Half of
the kills (SIGKILL) come at a random instant of it, from its start to its end; the other half as soon as the n-th file
that it writes appears, n drawn at random, so that they fall within saves. What a kill fell into is read from the
folder it left. Then the same command runs to its end, and the SHA-256 of its weights is compared.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

import staypositive as sp
from experiments.context import ExperimentContext
from experiments.data import read_data
from staypositive.run.checkpoint import CHECKPOINT
from staypositive.run.folder import CHECKPOINT_ROOM, RUN

DIM = 4
COMMON = ["--dim", str(DIM), "--threads", "1", "--checkpoint-every", "1", "--resume", "--calibrate", "none"]
CASES: dict[tuple[str, ...], list[str]] = {
    tuple(one["case"]): one["flags"].split() for one in read_data("settings")["kills"]
}
"""Model, objective, and what else is special; then the flags of `train`."""
IN_WRITE, IN_SAVE, ELSEWHERE = "in a file's write", "between a save's files", "published"
Wait = Callable[[Any, Path], None]


@dataclass
class Tally:
    """What became of the kills of one case."""

    fell: Counter[str] = field(default_factory=Counter)
    identical: int = 0

    @property
    def kills(self) -> int:
        """How many there were."""
        return self.fell.total()


def train(arguments: list[str], log: Path) -> None:
    """Run the command line, in the process that is to be killed; what it says goes to a file."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    from staypositive.cli import main

    sys.argv = ["staypositive", "train", "geo", *arguments]
    main()


def start(case: tuple[str, ...], folder: Path) -> Any:
    """Start a training of a case into a folder; modules are imported once, before the first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["staypositive.cli", "staypositive.training.cpu_kernels", "safetensors.torch"])
    model, objective, _ = case
    named = ["--model", model, "--objective", objective, "--no-evaluate", "--out", str(folder)]
    process = context.Process(target=train, args=([*named, *COMMON, *CASES[case]], folder.with_suffix(".log")))
    process.start()
    return process


def finish(case: tuple[str, ...], folder: Path) -> float:
    """Run a training to its end; return its seconds."""
    begun = time.perf_counter()
    process = start(case, folder)
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"{case} failed: {folder.with_suffix('.log').read_text('utf-8')}")
    return time.perf_counter() - begun


def weights_of(folder: Path) -> str:
    """Return the SHA-256 of a run's weights, its files being checked on the way."""
    state = sp.load_run(folder).model.state_dict()
    return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def files_in(folder: Path, pattern: str) -> set[str]:
    """Return names of files in a run's folder and in its checkpoint's."""
    found: set[str] = set()
    for place in (folder, folder / CHECKPOINT_ROOM):
        with suppress(FileNotFoundError):  # training has just made or removed it
            found |= {path.name for path in place.glob(pattern)}
    return found


def where_it_fell(folder: Path) -> str:
    """Return what a kill fell into, by what it left."""
    if files_in(folder, ".*.part"):
        return IN_WRITE
    for kind, place in ((RUN, folder), (CHECKPOINT, folder / CHECKPOINT_ROOM)):
        owned = {path.name for path in place.glob("*.*") if path.is_file() and kind.owns(path)} - {".lock"}
        named = {entry["file"] for entry in kind.files(place).values()} if kind.is_in(place) else set()
        if owned - named:
            return IN_SAVE
    return ELSEWHERE


def at_an_instant(seconds: float) -> Wait:
    """Wait for some seconds."""
    return lambda process, folder: process.join(seconds)


def at_a_file(number: int) -> Wait:
    """Wait until some number of files have begun to be written."""

    def wait(process: Any, folder: Path) -> None:
        seen: set[str] = set()
        while process.is_alive() and len(seen) < number:
            seen |= files_in(folder, ".*.part")

    return wait


def kill_once(case: tuple[str, ...], folder: Path, wait: Wait) -> str | None:
    """Start, wait, kill; return what the kill fell into, or None where training had ended before."""
    shutil.rmtree(folder, ignore_errors=True)
    process = start(case, folder)
    wait(process, folder)
    process.kill()
    process.join()
    return None if process.exitcode == 0 else where_it_fell(folder)


def try_case(case: tuple[str, ...], kills: int, place: Path, draw: random.Random) -> Tally:
    """Kill trainings of one case, and resume each."""
    folder, tally = place / "-".join(case), Tally()
    seconds = finish(case, folder)
    expected = weights_of(folder)
    while tally.kills < kills:
        in_saves = tally.kills % 2 == 1
        wait = at_a_file(draw.randint(1, 20)) if in_saves else at_an_instant(draw.uniform(0, seconds))
        fell = kill_once(case, folder, wait)
        if fell is None:
            continue
        finish(case, folder)
        tally.fell[fell] += 1
        tally.identical += weights_of(folder) == expected
    return tally


def rows_of(case: tuple[str, ...], tally: Tally, common: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a case's figures."""
    model, objective, setting = case
    figures = {
        "kills": tally.kills,
        "kills_in_saves": tally.kills - tally.fell[ELSEWHERE],
        "identical": tally.identical,
    }
    place = common | {"model": model, "objective": objective, "setting": setting, "dim": DIM}
    return [place | {"metric": name, "value": value} for name, value in figures.items()]


def kills(
    kills: Annotated[int, typer.Option(help="Of all cases together.")] = 50,
    cases: Annotated[int, typer.Option(help="Only the first of the cases.")] = len(CASES),
    seed: int = 0,
    results: Annotated[Path | None, typer.Option(help="Folder of results to add figures to.")] = None,
) -> None:
    """Kill trainings, resume each, and compare its weights with those of a training that was never stopped."""
    context = ExperimentContext.start("kills", results or Path())
    common = context.columns(sp.load_graph("geo"), seed=seed)
    draw, rows = random.Random(seed), []
    print("| model | objective | | kills | " + " | ".join((IN_WRITE, IN_SAVE, ELSEWHERE)) + " | identical |")
    print("| :-- | :-- | :-- | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as place:
        for number, case in enumerate(list(CASES)[:cases]):
            share = kills // cases + (number < kills % cases)
            tally = try_case(case, share, Path(place), draw)
            fell = " | ".join(str(tally.fell[kind]) for kind in (IN_WRITE, IN_SAVE, ELSEWHERE))
            print(f"| {' | '.join(case)} | {tally.kills} | {fell} | {tally.identical} |", flush=True)
            rows += rows_of(case, tally, common)
    if results:
        context.add(rows)
    killed, same = (sum(row["value"] for row in rows if row["metric"] == name) for name in ("kills", "identical"))
    print(f"{same} of {killed} trainings that were killed ended with the weights of one that never stopped")
    if same < killed:
        raise SystemExit(1)
