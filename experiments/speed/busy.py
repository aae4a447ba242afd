"""Seconds per epoch of CPU training on an idle machine and beside other programs, by how waiting threads wait.

All sides train the same two models on CoDEx-S in turn, in processes of their own. Run it on a machine that does
nothing else: the neighbours are part of it.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.context import RESULTS, ExperimentContext, ResultsOption
from experiments.data import read_data

WORKLOADS: dict[str, dict[str, Any]] = read_data("settings")["busy"]
SIDES = ("shared cores", "always spinning", "never spinning", "one thread")
LOOP = "while True: pass"
THREADED = "import torch\na = torch.rand(600, 600)\nwhile True: a = (a @ a).tanh_()"
NEIGHBOURS = {
    "idle": [],
    "two single-threaded programs": [LOOP, LOOP],
    "one multi-threaded program": [THREADED],
    "two multi-threaded programs": [THREADED, THREADED],
}
LIMIT = 30
"""Seconds after which a training is ended: the epochs done by then count, and at least this where none is."""


@contextmanager
def running(program: str) -> Iterator[None]:
    """Let a neighbour run meanwhile."""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            yield
        finally:
            process.kill()


def train(workload: str, side: str) -> None:
    """Train in this process, and print the seconds of each epoch."""
    import torch

    import staypositive as sp
    from staypositive.run import cores
    from staypositive.training import Callback, EpochRecord

    if side == "always spinning":
        cores.STATE = Path(os.devnull, "nothing")  # so that training cannot see what the cores do
    settings = WORKLOADS[workload] | {"threads": 1 if side == "one thread" else torch.get_num_threads()}
    graph = sp.load_graph("CoDEx-S")
    if workload == "numba":
        sp.fit(graph, **settings | {"epochs": 1})  # compiles, outside the measurement

    class Telling(Callback):
        def on_epoch(self, record: EpochRecord) -> None:
            print(json.dumps(record.seconds), flush=True)

    sp.fit(graph, **settings, validate_every=1000, seed=0, callbacks=[Telling()])


def measured(workload: str, side: str) -> float:
    """Return the seconds per epoch of one side, in a process of its own."""
    environment = os.environ | ({"GOMP_SPINCOUNT": "0"} if side == "never spinning" else {})
    command = [sys.executable, "-m", "experiments", "busy", "--workload", workload, "--side", side]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8") as process:
        clock = threading.Timer(LIMIT, process.kill)
        clock.start()
        assert process.stdout is not None
        epochs = [float(json.loads(line)) for line in process.stdout]
        clock.cancel()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"the training of {workload}, {side}, failed")
    return statistics.mean(epochs) if epochs else float(LIMIT)


def busy(
    rounds: int = 3,
    only: Annotated[str | None, typer.Option(help=f"One of the trainings: {', '.join(WORKLOADS)}.")] = None,
    results: ResultsOption = RESULTS,
    workload: Annotated[str, typer.Option(hidden=True)] = "",
    side: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure CPU epochs on an idle machine and beside other programs, by how waiting threads wait."""
    if side:
        train(workload, side)
        return
    times: dict[tuple[str, str, str], list[float]] = {}
    for _, (beside, programs), workload, side in itertools.product(
        range(rounds), NEIGHBOURS.items(), [only] if only else WORKLOADS, SIDES
    ):
        with ExitStack() as stack:
            for program in programs:
                stack.enter_context(running(program))
            times.setdefault((beside, workload, side), []).append(measured(workload, side))
        print(beside, workload, side, f"{times[beside, workload, side][-1]:.3f}", flush=True)
    _record(times, results)


def _record(times: dict[tuple[str, str, str], list[float]], results: Path) -> None:
    import staypositive as sp

    context = ExperimentContext.start("busy", results)
    common = context.columns(
        sp.load_graph("CoDEx-S"), split="train", metric="epoch_seconds", unit="s",
        device=f"cpu (x86_64), {os.cpu_count()} cores",
    )  # fmt: skip
    rows = []
    for (beside, workload, side), found in times.items():
        own = {name: WORKLOADS[workload][name] for name in ("model", "objective", "dim")}
        rows.append(common | own | {"setting": f"{side}; {beside}", "value": statistics.median(found)})
    context.add(rows)
